// CUDA's vector types.
#pragma once

#define VECTOR2(Type, Element)                                                                                         \
    struct alignas(2 * sizeof(Element)) Type##2 { Element x, y; };                                                     \
    inline Type##2 make_##Type##2(Element x, Element y) { return {x, y}; }
#define VECTOR4(Type, Element)                                                                                         \
    struct alignas(4 * sizeof(Element)) Type##4 { Element x, y, z, w; };                                               \
    inline Type##4 make_##Type##4(Element x, Element y, Element z, Element w) { return {x, y, z, w}; }

VECTOR2(int, int)
VECTOR2(uint, unsigned)
VECTOR2(float, float)
VECTOR4(int, int)
VECTOR4(uint, unsigned)
VECTOR4(float, float)

#undef VECTOR2
#undef VECTOR4

struct uint3 {
    unsigned x, y, z;
};

struct dim3 {
    unsigned x, y, z;
};
