// The gradient of a convolution's filter on tensor cores, from tensors as NCHW stores them, with no transposes.
// Products are of half, bfloat16, floats as TF32, or exact floats; all sums are in float.
//
//   dw[g][k][c][t][r][s] = Σ over n, z, p, q of dy[n][g][k][z][p][q] · x[n][g][c][e][h][w], where
//   e = z · STRIDE_SLICES + t · DILATION_SLICES - PADDING_SLICES, and h and w likewise from p and r, and from q and s,
//   by what is named _ROWS and _COLUMNS
//
// where g counts groups.
//
// The depth of this product is the pixels. Tensor cores want the depth contiguous in both factors, and NCHW has it so.
// A block computes BLOCK_ROWS rows of the filter for K_TILE k and C_TILE c at once, from shared memory: tiles of dy's
// pixels, and the part of x below them. Each x is read from there once for all places in a row of the filter. A warp
// has eight c and all rows of the block; for images of few channels, eight rows of any channels and some of the pixels;
// with K_WARPS > 1, some of the k and more c. A block's channels are of one group, or of JOINED small groups: a warp
// then has the K_MATRICES matrices of k that begin with the group of its first c, and leaves out the sums between
// groups. Where a row of the filter spans more of x than registers hold, a block has BLOCK_COLUMNS places of one row,
// each with a part of x of its own.
//
// Compiled with ELEMENT_FLOAT, ELEMENT_HALF or ELEMENT_BFLOAT16; with FILTER_ROWS, a multiple of BLOCK_ROWS,
// FILTER_COLUMNS, and STRIDE_, DILATION_ and PADDING_ (above and on the left) of both; for volumes with all these of
// slices, too, each of which has blocks of its own; and with TILE_ROWS and TILE_COLUMNS of a tile of dy's pixels: DEPTH
// pixels span at most two rows, a lane's two words lie in one row, and a tile is a multiple of DEPTH. ACCESS is the
// elements of one copy, 2 to 16 bytes; it divides the widths of x, dy and a tile. STAGES is the number of tiles in
// shared memory; all but one are still being copied. CHANNELS is the channels of x if these are few; otherwise K_WARPS
// is the number of warps that share a block's k, more than one only for a 1 × 1 filter. EXACT is defined for exact
// products of floats. CLUSTER, a power of two up to 16, is defined if that many blocks form a cluster: they share the
// pixels, and their sums meet in shared memory. SUMMED_TILES is defined if one sum of all pixels of a block is not
// exact enough: a sum then takes that many tiles. GROUPED is defined if there are several groups. With JOINED, GROUP_K
// and GROUP_C are a group's channels k and c, and K_TILE is the k up to the last warp's last one. BLOCK_COLUMNS is
// defined if places have parts of x of their own: it is all of a row's places, or a multiple of VECTOR; BLOCK_ROWS is 1
// then.

#ifdef FILTER_SLICES
#define VOLUMES
#else
#define FILTER_SLICES 1
#endif

// COLUMN_WARPS, K_WARPS and PIXEL_WARPS divide the product's columns, its rows and the pixels among warps. WARP_ROWS is
// how many rows of x a lane reads at once: rows of the filter, or rows of channels that lie N_MMA apart, or the parts
// of a row below BLOCK_COLUMNS places. ROW_PLACES are the places of the filter that meet each of them.
#ifdef CHANNELS
#define C_TILE CHANNELS
#define WARP_ROWS 1
#define COLUMN_WARPS ((CHANNELS * BLOCK_ROWS + 7) / 8)
#define K_WARPS 1
#define PIXEL_WARPS 4
#else
#define C_TILE 64
#ifdef BLOCK_COLUMNS
#define WARP_ROWS BLOCK_COLUMNS
#else
#define WARP_ROWS (K_WARPS > 1 ? K_WARPS : BLOCK_ROWS)
#endif
#define COLUMN_WARPS (8 / K_WARPS)
#define PIXEL_WARPS 1
#endif
#ifdef BLOCK_COLUMNS
#define SEPARATE_COLUMNS
#define ROW_PLACES 1
#else
#define BLOCK_COLUMNS FILTER_COLUMNS
#define ROW_PLACES FILTER_COLUMNS
#endif
// Otherwise the compiler spills registers to fit more blocks. For exact products of several matrices it does not, and
// begins too many products at once if it need not fit any.
#if defined JOINED && K_MATRICES == 1 && !defined EXACT
#define MULTIPROCESSOR_BLOCKS 2
#elif defined JOINED && (K_MATRICES == 1 || !defined EXACT)
#define MULTIPROCESSOR_BLOCKS 1
#elif FILTER_ROWS > 1 && FILTER_COLUMNS == 1 && !defined CLUSTER && !defined EXACT
#define MULTIPROCESSOR_BLOCKS 2
#endif
#define WARPS (COLUMN_WARPS * K_WARPS * PIXEL_WARPS)
#define THREADS (32 * WARPS)
#ifdef CLUSTER
#ifndef EXACT
// Otherwise the compiler spills registers to fit two blocks, for which shared memory mostly has no room. EXACT keeps
// that aim: without it the compiler begins too many exact products at once.
#define MULTIPROCESSOR_BLOCKS 1
#endif
#include "common/cluster.cuh"
#endif
#include "common/async_copy.cuh"
#include "common/device.cuh"
#include "common/ops.cuh"
#include "common/tf32_products.cuh"
#include "common/tiles.cuh"
#include "convolution/sum_up.cuh"

// Rows of A and columns of B in one product of tensor cores.
#define M_MMA 16
#define N_MMA 8

typedef unsigned Word;
// Elements in a word, and in the longest read.
constexpr int PER_WORD = sizeof(Word) / sizeof(Element);
constexpr int VECTOR = 4 * PER_WORD;
// Pixels in one product of tensor cores; each lane has two words of them.
constexpr int DEPTH = 8 * PER_WORD;
constexpr int OF_LANE = 2 * PER_WORD;

// Matrices A of a warp.
#ifdef JOINED
static_assert(JOINED * GROUP_C <= C_TILE && K_WARPS == 1, "all groups in a tile");
#else
#define K_MATRICES (K_TILE / M_MMA / K_WARPS)
static_assert(K_TILE % (M_MMA * K_WARPS) == 0, "whole matrices");
static_assert(K_WARPS == 1 || FILTER_SLICES * FILTER_ROWS * FILTER_COLUMNS == 1, "a filter of one place");
#endif

constexpr int PIXELS = TILE_ROWS * TILE_COLUMNS;
// A warp's pixels.
constexpr int PART = PIXELS / PIXEL_WARPS;
static_assert(TILE_ROWS % PIXEL_WARPS == 0 && PART % DEPTH == 0, "whole pieces of the depth");
static_assert(TILE_COLUMNS % OF_LANE == 0 && 2 * TILE_COLUMNS >= DEPTH, "in two rows, between lanes");
static_assert(TILE_COLUMNS % ACCESS == 0, "whole accesses");

constexpr int round_up(int value, int to) { return (value + to - 1) / to * to; }

// Columns of x that are copied in front of what a row of the filter meets, so that copies are aligned.
#ifdef SEPARATE_COLUMNS
static_assert(BLOCK_ROWS == 1 && K_WARPS == 1, "places of one row");
static_assert(BLOCK_COLUMNS == FILTER_COLUMNS || BLOCK_COLUMNS % VECTOR == 0, "all blocks' parts begin alike");
__device__ constexpr int first_neighbour(int part) {
    const int beyond = (part * DILATION_COLUMNS - PADDING_COLUMNS) % VECTOR;
    return beyond < 0 ? beyond + VECTOR : beyond;
}
constexpr int most_in_front() {
    int most = 0;
    for (int part = 0; part < BLOCK_COLUMNS; part++) most = first_neighbour(part) > most ? first_neighbour(part) : most;
    return most;
}
constexpr int MOST_IN_FRONT = most_in_front();
#else
// The padding, rounded up.
constexpr int LEFT = round_up(PADDING_COLUMNS, VECTOR);
constexpr int MOST_IN_FRONT = LEFT - PADDING_COLUMNS;
__device__ constexpr int first_neighbour(int) { return MOST_IN_FRONT; }
#endif
// Rows of x below a tile.
constexpr int X_ROWS = (TILE_ROWS - 1) * STRIDE_ROWS + (BLOCK_ROWS - 1) * DILATION_ROWS + 1;
static_assert(FILTER_ROWS % BLOCK_ROWS == 0, "whole blocks");
// The places that meet a row of x span SPANNED elements of it. A lane's pixels meet NEIGHBOURS of a row, from
// first_neighbour on; these lie in the words from first_word up to end_word. A lane reads TOGETHER words at once.
constexpr int SPANNED = (ROW_PLACES - 1) * DILATION_COLUMNS + 1;
constexpr int NEIGHBOURS = (OF_LANE - 1) * STRIDE_COLUMNS + SPANNED;
__device__ constexpr int first_word(int row) { return first_neighbour(row) / PER_WORD; }
__device__ constexpr int end_word(int row) { return (first_neighbour(row) + NEIGHBOURS - 1) / PER_WORD + 1; }
constexpr int TOGETHER = 2 * STRIDE_COLUMNS;
constexpr int READ = round_up((MOST_IN_FRONT + NEIGHBOURS - 1) / PER_WORD + 1, TOGETHER);
static_assert(STRIDE_COLUMNS == 1 || STRIDE_COLUMNS == 2, "two or four words");
constexpr int X_NEEDED = round_up((TILE_COLUMNS - 1) * STRIDE_COLUMNS + MOST_IN_FRONT + SPANNED, VECTOR);
// A row's four lanes read 4 · TOGETHER words, or half as many twice; the next row's lanes use the banks behind these.
#ifdef CHANNELS
// Each row of lanes reads a row of x; behind a channel's last row comes the next channel's first.
constexpr int X_COLUMNS = pitch_of(X_NEEDED / PER_WORD, 4 * TOGETHER) * PER_WORD;
constexpr int X_PITCH = pitch_of(X_ROWS * X_COLUMNS / PER_WORD, BLOCK_ROWS * X_COLUMNS / PER_WORD);
#else
#ifdef SEPARATE_COLUMNS
// The parts of a row, one after the other.
constexpr int X_COLUMNS = BLOCK_COLUMNS * X_NEEDED;
#else
constexpr int X_COLUMNS = X_NEEDED;
#endif
constexpr int X_PITCH = pitch_of(X_ROWS * X_COLUMNS / PER_WORD, 4 * TOGETHER);
#endif
constexpr int DY_PITCH = pitch_of(PIXELS / PER_WORD, 8);
// The distance between a lane's rows of x, in channels and in words.
constexpr int ROW_CHANNELS = K_WARPS > 1 ? N_MMA : 0;
#ifdef SEPARATE_COLUMNS
constexpr int ROW_WORDS = X_NEEDED / PER_WORD;
#else
constexpr int ROW_WORDS = K_WARPS > 1 ? N_MMA * X_PITCH : DILATION_ROWS * X_COLUMNS / PER_WORD;
#endif
// In shared memory, in words.
constexpr int STAGE = C_TILE * X_PITCH + K_TILE * DY_PITCH;

struct BackwardFilter {
    const Element *x, *dy;
    // dw; or, if several sums do not meet in shared memory, these sums in float, one after the other.
    void *dw;
    // Images, groups, and the channels k and c of each.
    int images, groups, k, c;
    // The sizes of x, and of dy.
    int slices, height, width, z, p, q;
    // Blocks that share the pixels.
    int splits;
    // dw = alpha · gradient + beta · dw. Not applied to sums that sum_up adds up.
    float alpha, beta;
};

struct Share {
    // The first of the block's groups, and its first channels k and c, counted over all groups.
    int group, first_k, first_c;
    // The slice of the filter, and the block's first row and column of it.
    int t, first_r, first_s;
    // Tiles of the pixels: from `first` up to `end`.
    int first, end;
    int split;
};

// The groups of a block, and those of all blocks.
#ifdef JOINED
constexpr int BLOCK_GROUPS = JOINED;
#else
constexpr int BLOCK_GROUPS = 1;
#endif
__device__ __forceinline__ int groups_of(const BackwardFilter &of) {
#ifdef GROUPED
    return of.groups;
#else
    return 1;
#endif
}

// The slices of an image of dy.
__device__ __forceinline__ int slices_of(const BackwardFilter &of) {
#ifdef VOLUMES
    return of.z;
#else
    return 1;
#endif
}

// The end of a block's groups: channels behind belong to others.
__device__ __forceinline__ int end_of(const BackwardFilter &of, const Share &share, int channels) {
    return min(share.group + BLOCK_GROUPS, groups_of(of)) * channels;
}

__device__ __forceinline__ Share share_of(const BackwardFilter &of) {
    const int of_row = (FILTER_COLUMNS + BLOCK_COLUMNS - 1) / BLOCK_COLUMNS;
    const int of_slice = FILTER_ROWS / BLOCK_ROWS * of_row, r_tiles = FILTER_SLICES * of_slice;
#ifdef JOINED
    const int k_tiles = 1, c_tiles = 1;
#else
    const int k_tiles = tiles_of(of.k, K_TILE), c_tiles = tiles_of(of.c, C_TILE);
#endif
    const int of_group = k_tiles * c_tiles * r_tiles;
#ifdef CLUSTER
    const int split = blockIdx.x % CLUSTER, tile = blockIdx.x / CLUSTER;
#else
    const int of_split = tiles_of(groups_of(of), BLOCK_GROUPS) * of_group;
    const int split = blockIdx.x / of_split, tile = blockIdx.x % of_split;
#endif
    const long long images = (long long)of.images * slices_of(of);
    const long long all = images * tiles_of(of.p, TILE_ROWS) * tiles_of(of.q, TILE_COLUMNS);
#ifdef GROUPED
    const int group = tile / of_group * BLOCK_GROUPS, in_group = tile % of_group;
#else
    const int group = 0, in_group = tile;
#endif
    return {group,
            group * of.k + in_group / (c_tiles * r_tiles) * K_TILE,
            group * of.c + in_group / r_tiles % c_tiles * C_TILE,
            FILTER_SLICES == 1 ? 0 : in_group % r_tiles / of_slice,
            in_group % of_slice / of_row * BLOCK_ROWS,
            in_group % of_row * BLOCK_COLUMNS,
            int(all * split / of.splits),
            int(all * (split + 1) / of.splits),
            split};
}

// Begins to copy ROWS rows and COLUMNS columns of OF channels, each of which has this number of slices, to shared
// memory: a row every ROW elements, a channel every PITCH words. Elements outside of the image, and those of channels
// from `channels` on, become zero. Each lane copies the same few places of several channels.
template <int OF, int ROWS, int COLUMNS, int ROW, int PITCH>
__device__ __forceinline__ void copy_tile(Word *to, const Element *from, int channels, int slices, int height,
                                          int width, int first_row, int first_column) {
    constexpr int across = COLUMNS / ACCESS, places = ROWS * across;
    // Channels that are copied at once, and warps for each of them.
    constexpr int at_once = OF < WARPS ? OF : WARPS, of_each = WARPS / at_once;
    const int area = slices * height * width, which = WARP % at_once, part = WARP / at_once;
    if (part >= of_each) return;
#pragma unroll
    for (int first = 0; first < places; first += 32 * of_each) {
        const int place = first + part * 32 + LANE, row = place / across, column = place % across * ACCESS;
        if (place >= places) break;
        const int h = first_row + row, w = first_column + column;
        const bool is_inside = h >= 0 && h < height && w >= 0 && w < width;
        const Element *source = from + (long long)which * area + h * width + w;
        Element *const target = reinterpret_cast<Element *>(to + which * PITCH) + row * ROW + column;
#pragma unroll
        for (int channel = 0; channel < OF; channel += at_once) {
            if (OF % at_once != 0 && which + channel >= OF) break;
            copy_async<ACCESS * sizeof(Element)>(target + channel * PITCH * PER_WORD, source,
                                                 is_inside && which + channel < channels);
            source += (long long)at_once * area;
        }
    }
}

// Begins to copy a tile of dy, and the part of x below it.
__device__ __forceinline__ void copy_tiles(const BackwardFilter &of, const Share &share, int tile, Word *stage) {
    const int across = tiles_of(of.q, TILE_COLUMNS), down = tiles_of(of.p, TILE_ROWS);
    const int p = tile / across % down * TILE_ROWS, q = tile % across * TILE_COLUMNS;
    int image = tile / (across * down), channels = end_of(of, share, of.c) - share.first_c;
#ifdef VOLUMES
    const int z = image % of.z, e = z * STRIDE_SLICES + share.t * DILATION_SLICES - PADDING_SLICES, slices = of.slices;
    image /= of.z;
    // A slice beside x has none but zeros.
    const bool is_inside = e >= 0 && e < slices;
    const int of_x = is_inside ? e * of.height * of.width : 0, of_dy = z * of.p * of.q;
    channels = is_inside ? channels : 0;
#else
    constexpr int slices = 1, of_x = 0, of_dy = 0;
#endif
    const Element *const x =
        of.x + ((long long)image * groups_of(of) * of.c + share.first_c) * slices * of.height * of.width + of_x;
    const Element *const dy =
        of.dy + ((long long)image * groups_of(of) * of.k + share.first_k) * slices_of(of) * of.p * of.q + of_dy;
    const int first_row = p * STRIDE_ROWS - PADDING_ROWS + share.first_r * DILATION_ROWS;
#ifdef SEPARATE_COLUMNS
#pragma unroll 1
    for (int part = 0; part < BLOCK_COLUMNS; part++) {
        const int s = share.first_s + part;
        // A place behind the last one has zeros.
        copy_tile<C_TILE, X_ROWS, X_NEEDED, X_COLUMNS, X_PITCH>(
            stage + part * ROW_WORDS, x, s < FILTER_COLUMNS ? channels : 0, slices, of.height, of.width, first_row,
            q * STRIDE_COLUMNS + s * DILATION_COLUMNS - PADDING_COLUMNS - first_neighbour(part));
    }
#else
    copy_tile<C_TILE, X_ROWS, X_NEEDED, X_COLUMNS, X_PITCH>(stage, x, channels, slices, of.height, of.width, first_row,
                                                            q * STRIDE_COLUMNS - LEFT);
#endif
    copy_tile<K_TILE, TILE_ROWS, TILE_COLUMNS, TILE_COLUMNS, DY_PITCH>(
        stage + C_TILE * X_PITCH, dy, end_of(of, share, of.k) - share.first_k, slices_of(of), of.p, of.q, p, q);
}

// CUDA's __byte_perm, with the result in the register that a product reads; the compiler would otherwise copy it there
// again and again.
__device__ __forceinline__ Word byte_perm(Word x, Word y, unsigned selector) {
#ifdef EMULATED
    return __byte_perm(x, y, selector);
#else
    Word bytes;
    asm volatile("prmt.b32 %0, %1, %2, %3;" : "=r"(bytes) : "r"(x), "r"(y), "r"(selector));
    return bytes;
#endif
}

// A word as an operand of tensor cores, likewise in a register of its own.
__device__ __forceinline__ Word operand(Word word) {
#ifdef ELEMENT_FLOAT
    return rounded_float(word);
#else
    return byte_perm(word, word, 0x3210);
#endif
}

// From row `r` of a lane's, the neighbours of its first or second word of pixels, at the row's place s of the filter.
__device__ __forceinline__ Word below_word(const Word (&x)[READ], int r, int word, int s) {
    const int at = first_neighbour(r) + word * PER_WORD * STRIDE_COLUMNS + s * DILATION_COLUMNS;
    if (PER_WORD == 1) return operand(x[at]);
    const int next = at + STRIDE_COLUMNS;
    if (at % 2 == 0 && STRIDE_COLUMNS == 1) return operand(x[at / 2]);
    // The low or the high half of each of two words.
    return byte_perm(x[at / 2], x[next / 2], (at % 2 ? 0x32 : 0x10) | (next % 2 ? 0x7600 : 0x5400));
}

// A lane's part of DEPTH pixels: two words of dy for each of two k of a matrix, and their neighbours in rows of x.
struct Piece {
    uint2 dy[K_MATRICES][2];
    Word x[WARP_ROWS][READ];
};

// Reads the piece at pixel `first`, best a constant. `x` and `dy` point to the lane's part of the first piece.
__device__ __forceinline__ void read_piece(const Word *x, const Word *dy, int first, Piece &piece) {
#pragma unroll
    for (int i = 0; i < 2 * K_MATRICES; i++)
        piece.dy[i / 2][i % 2] = *reinterpret_cast<const uint2 *>(dy + i * (M_MMA / 2) * DY_PITCH + first / PER_WORD);
    const int row = first / TILE_COLUMNS, column = first % TILE_COLUMNS;
    const Word *below = x + (row * STRIDE_ROWS * X_COLUMNS + column * STRIDE_COLUMNS) / PER_WORD;
    // Some lanes' pixels may lie in the tile's next row.
    if (column + DEPTH > TILE_COLUMNS && int(LANE % 4 * OF_LANE) >= TILE_COLUMNS - column)
        below += (STRIDE_ROWS * X_COLUMNS - TILE_COLUMNS * STRIDE_COLUMNS) / PER_WORD;
#pragma unroll
    for (int r = 0; r < WARP_ROWS; r++) {
        const Word *const row = below + r * ROW_WORDS;
#pragma unroll
        for (int at = 0; at < READ; at += TOGETHER) {
            const int begin = max(at, first_word(r)), end = min(at + TOGETHER, end_word(r));
            if (end - begin <= 1) {
                if (begin < end) piece.x[r][begin] = row[begin];
            } else if (TOGETHER == 2) {
                const uint2 all = *reinterpret_cast<const uint2 *>(row + at);
                piece.x[r][at] = all.x, piece.x[r][at + 1] = all.y;
            } else {
                const uint4 all = *reinterpret_cast<const uint4 *>(row + at);
                piece.x[r][at] = all.x, piece.x[r][at + 1] = all.y;
                piece.x[r][at + TOGETHER - 2] = all.z, piece.x[r][at + TOGETHER - 1] = all.w;
            }
        }
    }
}

// A warp's sums, in the layout of tensor cores: a thread has quads.
typedef float Sums[WARP_ROWS][ROW_PLACES][K_MATRICES][4];
constexpr int QUADS = WARP_ROWS * ROW_PLACES * K_MATRICES;
// The block's first threads, which end up with all of its sums.
constexpr int SUMMING_THREADS = 32 * COLUMN_WARPS * K_WARPS;

#ifdef EXACT

// Sums few products on tensor cores, which round towards zero, and then adds these sums to the others.
__device__ __forceinline__ void add_products(const Piece &piece, Sums &sums) {
    Word a[2][K_MATRICES][4];
#pragma unroll
    for (int i = 0; i < 4 * K_MATRICES; i++) {
        const int m = i / 4, of_matrix = i % 4;
        const uint2 both = piece.dy[m][of_matrix % 2];
        split_float(of_matrix < 2 ? both.x : both.y, a[HIGH][m][of_matrix], a[LOW][m][of_matrix]);
    }
    // Rows that are worked on at once: enough sums to keep tensor cores busy.
    constexpr int at_once = FILTER_COLUMNS == 1 ? WARP_ROWS : ROW_PLACES == 1 && WARP_ROWS % 2 == 0 ? 2 : 1;
#pragma unroll
    for (int first = 0; first < WARP_ROWS; first += at_once) {
        Word x[2][at_once][READ];
#pragma unroll
        for (int i = 0; i < at_once * NEIGHBOURS; i++) {
            const int r = i / NEIGHBOURS, at = first_neighbour(first + r) + i % NEIGHBOURS;
            split_float(piece.x[first + r][at], x[HIGH][r][at], x[LOW][r][at]);
        }
        float products[at_once][ROW_PLACES][K_MATRICES][4] = {};
#pragma unroll
        for (int which = 0; which < 3; which++) {
            const int of_a = exact_parts[which][0], of_x = exact_parts[which][1];
#pragma unroll
            for (int i = 0; i < at_once * ROW_PLACES; i++) {
                const int r = i / ROW_PLACES, s = i % ROW_PLACES;
                const int at = first_neighbour(first + r) + s * DILATION_COLUMNS;
                const Word *const of_row = x[of_x][r];
                const Word b[2] = {of_row[at], of_row[at + STRIDE_COLUMNS]};
#pragma unroll
                for (int m = 0; m < K_MATRICES; m++) warp_mma(products[r][s][m], a[of_a][m], b);
            }
        }
#pragma unroll
        for (int i = 0; i < at_once * ROW_PLACES * K_MATRICES * 4; i++)
            (&sums[first][0][0][0])[i] += (&products[0][0][0][0])[i];
    }
}

#else

// In both factors, the order of the depth is the lanes' first words, then their second words.
__device__ __forceinline__ void add_products(const Piece &piece, Sums &sums) {
    Word a[K_MATRICES][4];
#pragma unroll
    for (int m = 0; m < K_MATRICES; m++) {
#pragma unroll
        for (int i = 0; i < 2; i++) a[m][i] = operand(piece.dy[m][i].x), a[m][i + 2] = operand(piece.dy[m][i].y);
    }
#pragma unroll
    for (int r = 0; r < WARP_ROWS; r++) {
#pragma unroll
        for (int s = 0; s < ROW_PLACES; s++) {
            const Word b[2] = {below_word(piece.x[r], r, 0, s), below_word(piece.x[r], r, 1, s)};
#pragma unroll
            for (int m = 0; m < K_MATRICES; m++) warp_mma(sums[r][s][m], a[m], b);
        }
    }
}

#endif

// A column of the warp's product: its channel c, or C_TILE if it has none, and the first of its WARP_ROWS rows r; with
// K_WARPS > 1, the first of its WARP_ROWS channels. Both count from the block's first.
struct Column {
    int c, r;
};

__device__ __forceinline__ Column column_of(int of_warp) {
    if (K_WARPS > 1) return {int(WARP % COLUMN_WARPS) * WARP_ROWS * N_MMA + of_warp, 0};
    const int column = WARP % COLUMN_WARPS * N_MMA + of_warp, rows = max(BLOCK_ROWS / WARP_ROWS, 1);
    return {min(column / rows, C_TILE), column % rows};
}

__device__ __forceinline__ int first_k_of_warp() {
#ifdef JOINED
    return min(int(WARP) * N_MMA, JOINED * GROUP_C - 1) / GROUP_C * GROUP_K;
#else
    return WARP / COLUMN_WARPS % K_WARPS * K_MATRICES * M_MMA;
#endif
}

// Adds the products of the warp's pixels in a tile, and meanwhile reads the operands of the next products.
__device__ __forceinline__ void add_tile(const Word *stage, Sums &sums) {
    const int row = LANE / 4, word = LANE % 4 * 2, part = WARP / (COLUMN_WARPS * K_WARPS);
    const Column column = column_of(row);
    // A column without a channel repeats the last row of the last channel.
    const int c = min(column.c, C_TILE - 1), r = column.c < C_TILE ? column.r : BLOCK_ROWS - 1;
    const Word *const x = stage + c * X_PITCH + word * STRIDE_COLUMNS +
                          (r * DILATION_ROWS + part * (TILE_ROWS / PIXEL_WARPS) * STRIDE_ROWS) * (X_COLUMNS / PER_WORD);
    const Word *const dy =
        stage + C_TILE * X_PITCH + (first_k_of_warp() + row) * DY_PITCH + word + part * (PART / PER_WORD);
    // The compiler would begin too many exact products at once for the registers.
#if defined EXACT && !defined CHANNELS
    constexpr int together = FILTER_COLUMNS > 1 ? 2 : PART / DEPTH;
#else
    constexpr int together = PART / DEPTH;
#endif
    Piece pieces[2];
    read_piece(x, dy, 0, pieces[0]);
#pragma unroll together
    for (int i = 0; i < PART / DEPTH; i++) {
        if (i + 1 < PART / DEPTH) read_piece(x, dy, (i + 1) * DEPTH, pieces[(i + 1) % 2]);
        add_products(pieces[i % 2], sums);
    }
}

#ifdef SUMMED_TILES

// Adds a thread's sums to its totals, and clears the sums.
__device__ __forceinline__ void add_to(Sums &totals, Sums &sums) {
#pragma unroll
    for (int i = 0; i < QUADS * 4; i++) {
        (&totals[0][0][0][0])[i] += (&sums[0][0][0][0])[i];
        (&sums[0][0][0][0])[i] = 0;
    }
}

#endif

// Adds the sums of all warps with the same columns to those of the first warps, part by part, in shared memory, which
// has no other use by now.
__device__ __forceinline__ void add_parts(float *all, Sums &sums) {
    constexpr int count = sizeof(Sums) / sizeof(float);
    static_assert(PIXEL_WARPS == 1 || count * COLUMN_WARPS * 32 <= STAGES * STAGE, "room for a part");
    float *const mine = all + WARP % COLUMN_WARPS * 32 + LANE, *const own = &sums[0][0][0][0];
#pragma unroll 1
    for (int part = 1; part < PIXEL_WARPS; part++) {
        barrier();
        if (WARP / COLUMN_WARPS == part) {
#pragma unroll
            for (int i = 0; i < count; i++) mine[i * COLUMN_WARPS * 32] = own[i];
        }
        barrier();
        if (WARP < COLUMN_WARPS) {
#pragma unroll
            for (int i = 0; i < count; i++) own[i] += mine[i * COLUMN_WARPS * 32];
        }
    }
}

// Calls write(place in dw, sum) for sum i of a thread's quad.
template <typename Write>
__device__ __forceinline__ void write_sum(const BackwardFilter &of, const Share &share, int quad, int i, float sum,
                                          Write write) {
    const int row = quad / (K_MATRICES * ROW_PLACES), place = quad / K_MATRICES % ROW_PLACES, m = quad % K_MATRICES;
    const Column column = column_of(LANE % 4 * 2 + i % 2);
    const int of_block = first_k_of_warp() + m * M_MMA + LANE / 4 + i / 2 * (M_MMA / 2), k = share.first_k + of_block;
    const int c = share.first_c + column.c + row * ROW_CHANNELS;
#ifdef SEPARATE_COLUMNS
    const int r = share.first_r, s = share.first_s + row;
    if (s >= FILTER_COLUMNS) return;
#else
    const int r = share.first_r + (ROW_CHANNELS ? 0 : column.r + row), s = place;
#endif
    if (column.c == C_TILE || k >= end_of(of, share, of.k) || c >= end_of(of, share, of.c)) return;
#ifdef JOINED
    if (of_block / GROUP_K != column.c / GROUP_C) return;
    const int of_group = column.c % GROUP_C;
#else
    const int of_group = c - share.group * of.c;
#endif
    write(((((long long)k * of.c + of_group) * FILTER_SLICES + share.t) * FILTER_ROWS + r) * FILTER_COLUMNS + s, sum);
}

#ifdef CLUSTER

// Quads that a thread sends at once.
constexpr int AT_ONCE = 16;
static_assert(AT_ONCE % CLUSTER == 0, "each block gets as many");
// The Mbarrier's place in shared memory, in words: behind the stages, and behind the received quads, which overwrite
// the stages.
constexpr int RECEIVED = AT_ONCE * SUMMING_THREADS * 4;
constexpr int MBARRIER = STAGES * STAGE > RECEIVED ? STAGES * STAGE : RECEIVED;

// Sends each quad of the sums of a cluster's blocks to one of the blocks, which adds up the blocks' quads in the
// blocks' order and writes the result.
template <typename Write>
__device__ __forceinline__ void meet_in_cluster(const BackwardFilter &of, const Share &share, const Sums &sums,
                                                float4 *received, Mbarrier &arrived, Write write) {
    const int rank = share.split;
#pragma unroll
    for (int first = 0; first < QUADS; first += AT_ONCE) {
        // No block still needs its stages, or the quads that it received before.
        cluster_sync();
        const int sent = min(AT_ONCE, QUADS - first), own = (sent + CLUSTER - 1 - rank) / CLUSTER;
        if (threadIdx.x == 0) arrived.expect(own * CLUSTER * SUMMING_THREADS * sizeof(float4));
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            if (first + i >= QUADS) break;
            const float(&quad)[4] = (&sums[0][0][0])[first + i];
            float4 *const place = received + (i / CLUSTER * CLUSTER + rank) * SUMMING_THREADS + threadIdx.x;
            send(make_float4(quad[0], quad[1], quad[2], quad[3]), place, arrived, i % CLUSTER);
        }
        Spin spin;
        while (!arrived.has_ended(first / AT_ONCE % 2)) spin.again();
#pragma unroll 1
        for (int i = 0; i < own; i++) {
            float sum[4] = {};
            for (int block = 0; block < CLUSTER; block++) {
                const float4 part = received[(i * CLUSTER + block) * SUMMING_THREADS + threadIdx.x];
                sum[0] += part.x, sum[1] += part.y, sum[2] += part.z, sum[3] += part.w;
            }
#pragma unroll
            for (int j = 0; j < 4; j++) write_sum(of, share, first + i * CLUSTER + rank, j, sum[j], write);
        }
    }
}

#else

// Calls write(place in dw, sum) for each of a thread's sums.
template <typename Write>
__device__ __forceinline__ void write_sums(const BackwardFilter &of, const Share &share, const Sums &sums, Write write) {
    // One k after the other: all of them at once do not fit into registers.
#pragma unroll
    for (int of_k = 0; of_k < 4 * K_MATRICES; of_k++) {
        const int i = of_k / K_MATRICES, m = of_k % K_MATRICES;
#pragma unroll
        for (int quad = m; quad < QUADS; quad += K_MATRICES)
            write_sum(of, share, quad, i, (&sums[0][0][0])[quad][i], write);
    }
}

#endif

KERNEL(backward_filter, BackwardFilter) {
    SHARED(Word, stages);
    const BackwardFilter &of = parameters;
    const Share share = share_of(of);
#ifdef CLUSTER
    Mbarrier &arrived = *reinterpret_cast<Mbarrier *>(stages + MBARRIER);
    if (threadIdx.x == 0) arrived.initialize(1);
#endif
    Sums sums = {};
#ifdef SUMMED_TILES
    Sums totals = {};
    int summed = 0;
#endif
#pragma unroll
    for (int ahead = 0; ahead < STAGES - 1; ahead++) {
        if (share.first + ahead < share.end) copy_tiles(of, share, share.first + ahead, stages + ahead * STAGE);
        end_group();
    }
    int at_hand = 0, ahead = STAGES - 1;
    for (int tile = share.first; tile < share.end; tile++) {
        wait_for_groups<STAGES - 2>();
        // All threads' copies of the current tile have arrived, and nobody reads the tile before any more.
        barrier();
        if (tile + STAGES - 1 < share.end) copy_tiles(of, share, tile + STAGES - 1, stages + ahead * STAGE);
        end_group();
        add_tile(stages + at_hand * STAGE, sums);
#ifdef SUMMED_TILES
        if (++summed % SUMMED_TILES == 0) add_to(totals, sums);
#endif
        at_hand = at_hand == STAGES - 1 ? 0 : at_hand + 1;
        ahead = ahead == STAGES - 1 ? 0 : ahead + 1;
    }

#ifdef SUMMED_TILES
    add_to(sums, totals);
#endif
    add_parts(reinterpret_cast<float *>(stages), sums);
    if (threadIdx.x >= SUMMING_THREADS) return;
    Element *const dw = static_cast<Element *>(of.dw);
    const auto scale = [&](long long at, float sum) { scale_into(dw[at], sum, of.alpha, of.beta); };
#ifdef CLUSTER
    meet_in_cluster(of, share, sums, reinterpret_cast<float4 *>(stages), arrived, scale);
#else
    if (of.splits == 1) {
        write_sums(of, share, sums, scale);
    } else {
        constexpr int places = FILTER_SLICES * FILTER_ROWS * FILTER_COLUMNS;
        const long long elements = (long long)groups_of(of) * of.k * of.c * places;
        float *const all = static_cast<float *>(of.dw) + share.split * elements;
        write_sums(of, share, sums, [&](long long at, float sum) { all[at] = sum; });
    }
#endif
}
