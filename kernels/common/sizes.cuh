// Arithmetic of sizes.
#pragma once

constexpr int at_least(int n, int least) { return n > least ? n : least; }
constexpr int divided_up(int n, int by) { return (n + by - 1) / by; }

// The most neighbouring parts that divide all parts, a power of two, `most` at most. Of numbers joined by |: all of them.
constexpr int together(int parts, int most) { return parts % most ? together(parts, most / 2) : most; }

// n, halved as often as `by`, a power of two, can be.
constexpr int halved_up(int n, int by) { return by > 1 ? halved_up(divided_up(n, 2), by / 2) : n; }
