// Products on the tensor cores of a warpgroup, which is four warps that begin at a multiple of four: wgmma, for GPUs of
// compute capability 9.0 and for the emulator. Both factors are in shared memory.
//
// A factor's numbers have 2 bytes: elements, or where elements are floats their parts in bfloat16. They stand in lines of
// 64: 128 bytes, in eight pieces of 16 bytes. Piece c of line l stands at piece c ^ (l % 8) of the line's place; `piece_of`
// tells where. Lines follow each other; line 0's place is a multiple of 1024. A line of a factor ALONG its depth has 64
// numbers of one row of A, or column of B. A line ACROSS it has the numbers of 64 rows or columns at one depth; the lines
// of the next 64 rows or columns begin `apart` bytes behind those of the first.
//
// With LINE_NUMBERS of 32, lines have half of that: 64 bytes, in four pieces, of which c of line l stands at piece
// c ^ (l / 2 % 4). Line 0's place is a multiple of 512. All factors are ALONG their depth.
//
// | word | meaning |
// | --- | --- |
// | `factor_at<way>(place, apart)` | a factor that begins with any line, at `place`; of a factor ALONG its depth, a product may begin with any even piece |
// | `later(factor, bytes)` | the factor that begins so many bytes behind |
// | `SumsOf<columns>`, `WarpgroupSums` | 64 rows by 64, 96, 128 or 256 columns; by 128. Warp w and lane l of the warpgroup have row 16 w + l / 4 + 8 i and column 8 j + l % 4 * 2 + k as `of[4 j + 2 i + k]` |
// | `sums.begin()` | comes before the first product, and before a product behind a change to `of` |
// | `sums.add<a's way, b's way>(a, b)` | begins to add a product of depth 16: of 64 rows of A and all columns of B |
// | `sums.end_group()`, `sums.wait_for_groups<n>()` | as of asynchronous copies: only behind the wait may `of` be read, or shared memory be changed |
// | `show_copies()` | this thread's copies and stores to shared memory, which have arrived, are seen by products behind the next `barrier()` |
// | `more_registers<count>()`, `fewer_registers<count>()` | each thread of the warpgroup may use `count` registers from there on, a multiple of 8. A block whose warpgroups do different work hands registers from one to another: all of them together have as many as at the start |
#pragma once

#include "common/ops.cuh"

enum Way { ALONG, ACROSS };

#ifndef LINE_NUMBERS
#define LINE_NUMBERS 64
#endif

constexpr int LINE = LINE_NUMBERS, LINE_BYTES = 2 * LINE, PIECE_BYTES = 16, WARPGROUP = 128;
// The depth of a product.
constexpr int DEPTH_OF_PRODUCT = 16;
// Lines of so many bytes have their pieces in the same order.
constexpr int ORDER_BYTES = 128;

// The bytes from the first line to a piece of a line.
__device__ __forceinline__ int piece_of(int line, int piece) {
    constexpr int PIECES = LINE_BYTES / PIECE_BYTES;
    return line * LINE_BYTES + (piece ^ line * LINE_BYTES / ORDER_BYTES % PIECES) * PIECE_BYTES;
}

#ifdef EMULATED

#include "emulator/warpgroup.h"

#else

template <int COUNT> __device__ __forceinline__ void more_registers() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(COUNT));
}
template <int COUNT> __device__ __forceinline__ void fewer_registers() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(COUNT));
}

typedef unsigned long long Factor;

__device__ __forceinline__ Factor later(Factor factor, int bytes) {
    // The address is in the lower half, which does not overflow.
    const unsigned low = unsigned(factor) + bytes / PIECE_BYTES;
    return factor & 0xffffffff00000000 | low;
}

// A factor's bits, in pieces: 0 to 13 are its address; 16 to 29 the distance from 64 rows to the next 64, ACROSS; 32 to
// 45 the distance from 8 lines to the next 8. Bits 62 and 63 say how lines are mixed: 1 stands for all 128 bytes, and 2
// for 64.
template <Way> __device__ __forceinline__ Factor factor_at(const void *place, int apart) {
    const unsigned address = __cvta_generic_to_shared(place);
    return Factor(128 / LINE_BYTES) << 62 | Factor(8 * LINE_BYTES / PIECE_BYTES) << 32 | Factor(apart / PIECE_BYTES) << 16 |
           (address & 0x3ffff) / PIECE_BYTES;
}

__device__ __forceinline__ void show_copies() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

#ifdef ELEMENT_HALF
#define WARPGROUP_TYPE "f16"
#else
#define WARPGROUP_TYPE "bf16"
#endif

// Begins to add a product to 64 rows by 64, 96, 128 or 256 columns of sums.
template <Way A, Way B> __device__ __forceinline__ void begin_product(float (&of)[32], Factor a, Factor b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32." WARPGROUP_TYPE "." WARPGROUP_TYPE " {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
                 "}, %32, %33, 1, 1, 1, %34, %35;"
                 : "+f"(of[0]), "+f"(of[1]), "+f"(of[2]), "+f"(of[3]), "+f"(of[4]), "+f"(of[5]),
                   "+f"(of[6]), "+f"(of[7]), "+f"(of[8]), "+f"(of[9]), "+f"(of[10]), "+f"(of[11]),
                   "+f"(of[12]), "+f"(of[13]), "+f"(of[14]), "+f"(of[15]), "+f"(of[16]), "+f"(of[17]),
                   "+f"(of[18]), "+f"(of[19]), "+f"(of[20]), "+f"(of[21]), "+f"(of[22]), "+f"(of[23]),
                   "+f"(of[24]), "+f"(of[25]), "+f"(of[26]), "+f"(of[27]), "+f"(of[28]), "+f"(of[29]),
                   "+f"(of[30]), "+f"(of[31])
                 : "l"(a), "l"(b), "n"(int(A)), "n"(int(B)));
}
template <Way A, Way B> __device__ __forceinline__ void begin_product(float (&of)[48], Factor a, Factor b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n96k16.f32." WARPGROUP_TYPE "." WARPGROUP_TYPE " {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
                 "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"
                 "}, %48, %49, 1, 1, 1, %50, %51;"
                 : "+f"(of[0]), "+f"(of[1]), "+f"(of[2]), "+f"(of[3]), "+f"(of[4]), "+f"(of[5]),
                   "+f"(of[6]), "+f"(of[7]), "+f"(of[8]), "+f"(of[9]), "+f"(of[10]), "+f"(of[11]),
                   "+f"(of[12]), "+f"(of[13]), "+f"(of[14]), "+f"(of[15]), "+f"(of[16]), "+f"(of[17]),
                   "+f"(of[18]), "+f"(of[19]), "+f"(of[20]), "+f"(of[21]), "+f"(of[22]), "+f"(of[23]),
                   "+f"(of[24]), "+f"(of[25]), "+f"(of[26]), "+f"(of[27]), "+f"(of[28]), "+f"(of[29]),
                   "+f"(of[30]), "+f"(of[31]), "+f"(of[32]), "+f"(of[33]), "+f"(of[34]), "+f"(of[35]),
                   "+f"(of[36]), "+f"(of[37]), "+f"(of[38]), "+f"(of[39]), "+f"(of[40]), "+f"(of[41]),
                   "+f"(of[42]), "+f"(of[43]), "+f"(of[44]), "+f"(of[45]), "+f"(of[46]), "+f"(of[47])
                 : "l"(a), "l"(b), "n"(int(A)), "n"(int(B)));
}
template <Way A, Way B> __device__ __forceinline__ void begin_product(float (&of)[64], Factor a, Factor b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32." WARPGROUP_TYPE "." WARPGROUP_TYPE " {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
                 "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
                 "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
                 "}, %64, %65, 1, 1, 1, %66, %67;"
                 : "+f"(of[0]), "+f"(of[1]), "+f"(of[2]), "+f"(of[3]), "+f"(of[4]), "+f"(of[5]),
                   "+f"(of[6]), "+f"(of[7]), "+f"(of[8]), "+f"(of[9]), "+f"(of[10]), "+f"(of[11]),
                   "+f"(of[12]), "+f"(of[13]), "+f"(of[14]), "+f"(of[15]), "+f"(of[16]), "+f"(of[17]),
                   "+f"(of[18]), "+f"(of[19]), "+f"(of[20]), "+f"(of[21]), "+f"(of[22]), "+f"(of[23]),
                   "+f"(of[24]), "+f"(of[25]), "+f"(of[26]), "+f"(of[27]), "+f"(of[28]), "+f"(of[29]),
                   "+f"(of[30]), "+f"(of[31]), "+f"(of[32]), "+f"(of[33]), "+f"(of[34]), "+f"(of[35]),
                   "+f"(of[36]), "+f"(of[37]), "+f"(of[38]), "+f"(of[39]), "+f"(of[40]), "+f"(of[41]),
                   "+f"(of[42]), "+f"(of[43]), "+f"(of[44]), "+f"(of[45]), "+f"(of[46]), "+f"(of[47]),
                   "+f"(of[48]), "+f"(of[49]), "+f"(of[50]), "+f"(of[51]), "+f"(of[52]), "+f"(of[53]),
                   "+f"(of[54]), "+f"(of[55]), "+f"(of[56]), "+f"(of[57]), "+f"(of[58]), "+f"(of[59]),
                   "+f"(of[60]), "+f"(of[61]), "+f"(of[62]), "+f"(of[63])
                 : "l"(a), "l"(b), "n"(int(A)), "n"(int(B)));
}
template <Way A, Way B> __device__ __forceinline__ void begin_product(float (&of)[128], Factor a, Factor b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n256k16.f32." WARPGROUP_TYPE "." WARPGROUP_TYPE " {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
                 "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
                 "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
                 "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
                 "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
                 "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "
                 "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
                 "}, %128, %129, 1, 1, 1, %130, %131;"
                 : "+f"(of[0]), "+f"(of[1]), "+f"(of[2]), "+f"(of[3]), "+f"(of[4]), "+f"(of[5]),
                   "+f"(of[6]), "+f"(of[7]), "+f"(of[8]), "+f"(of[9]), "+f"(of[10]), "+f"(of[11]),
                   "+f"(of[12]), "+f"(of[13]), "+f"(of[14]), "+f"(of[15]), "+f"(of[16]), "+f"(of[17]),
                   "+f"(of[18]), "+f"(of[19]), "+f"(of[20]), "+f"(of[21]), "+f"(of[22]), "+f"(of[23]),
                   "+f"(of[24]), "+f"(of[25]), "+f"(of[26]), "+f"(of[27]), "+f"(of[28]), "+f"(of[29]),
                   "+f"(of[30]), "+f"(of[31]), "+f"(of[32]), "+f"(of[33]), "+f"(of[34]), "+f"(of[35]),
                   "+f"(of[36]), "+f"(of[37]), "+f"(of[38]), "+f"(of[39]), "+f"(of[40]), "+f"(of[41]),
                   "+f"(of[42]), "+f"(of[43]), "+f"(of[44]), "+f"(of[45]), "+f"(of[46]), "+f"(of[47]),
                   "+f"(of[48]), "+f"(of[49]), "+f"(of[50]), "+f"(of[51]), "+f"(of[52]), "+f"(of[53]),
                   "+f"(of[54]), "+f"(of[55]), "+f"(of[56]), "+f"(of[57]), "+f"(of[58]), "+f"(of[59]),
                   "+f"(of[60]), "+f"(of[61]), "+f"(of[62]), "+f"(of[63]), "+f"(of[64]), "+f"(of[65]),
                   "+f"(of[66]), "+f"(of[67]), "+f"(of[68]), "+f"(of[69]), "+f"(of[70]), "+f"(of[71]),
                   "+f"(of[72]), "+f"(of[73]), "+f"(of[74]), "+f"(of[75]), "+f"(of[76]), "+f"(of[77]),
                   "+f"(of[78]), "+f"(of[79]), "+f"(of[80]), "+f"(of[81]), "+f"(of[82]), "+f"(of[83]),
                   "+f"(of[84]), "+f"(of[85]), "+f"(of[86]), "+f"(of[87]), "+f"(of[88]), "+f"(of[89]),
                   "+f"(of[90]), "+f"(of[91]), "+f"(of[92]), "+f"(of[93]), "+f"(of[94]), "+f"(of[95]),
                   "+f"(of[96]), "+f"(of[97]), "+f"(of[98]), "+f"(of[99]), "+f"(of[100]), "+f"(of[101]),
                   "+f"(of[102]), "+f"(of[103]), "+f"(of[104]), "+f"(of[105]), "+f"(of[106]), "+f"(of[107]),
                   "+f"(of[108]), "+f"(of[109]), "+f"(of[110]), "+f"(of[111]), "+f"(of[112]), "+f"(of[113]),
                   "+f"(of[114]), "+f"(of[115]), "+f"(of[116]), "+f"(of[117]), "+f"(of[118]), "+f"(of[119]),
                   "+f"(of[120]), "+f"(of[121]), "+f"(of[122]), "+f"(of[123]), "+f"(of[124]), "+f"(of[125]),
                   "+f"(of[126]), "+f"(of[127])
                 : "l"(a), "l"(b), "n"(int(A)), "n"(int(B)));
}

template <int COLUMNS> struct SumsOf {
    float of[COLUMNS / 2] = {};

    __device__ __forceinline__ void begin() {
        stay_in_order();
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    }

    template <Way A, Way B> __device__ __forceinline__ void add(Factor a, Factor b) { begin_product<A, B>(of, a, b); }

    __device__ __forceinline__ void end_group() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

    template <int BUT> __device__ __forceinline__ void wait_for_groups() {
        asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(BUT) : "memory");
        stay_in_order();
    }

  private:
    // The compiler must not move accesses to the sums across: it does not know that products change them until the
    // wait.
    __device__ __forceinline__ void stay_in_order() {
#pragma unroll
        for (int i = 0; i < COLUMNS / 2; i++) asm volatile("" : "+f"(of[i])::"memory");
    }
};

#endif

typedef SumsOf<128> WarpgroupSums;
