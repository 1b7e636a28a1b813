// How a step changes the parameters by the gradient of its loss.
//
// A source defines THREADS, 256, before it includes this.
#pragma once

#include "dynamic/slices.cuh"
#include "dynamic/tables.cuh"
#include "dynamic/together.cuh"

// Gradient descent: a number p becomes p - rate (share gradient + decay p).
__device__ __forceinline__ void descend_by(Element &p, float gradient, float share, float rate, float decay) {
    const float before = to_float(p);
    p = to_element(before - rate * (share * gradient + decay * before));
}

struct Descent {
    Parts gradient;
    Element *to;
    const float *share;
    float rate, decay;
};

__device__ __forceinline__ void descend(const Descent &it, unsigned block, unsigned blocks) {
    const float share = *it.share;
    for_all_of_task(it.gradient.count, block, blocks, [&](size_t number) {
        descend_by(it.to[number], it.gradient.sum(number), share, it.rate, it.decay);
    });
}

// Likewise without decay, of a table whose gradient is the sum of rows: other rows of the table stay as they are.
struct DescentOfRows {
    RowsOfTable its;
    Element *to;
    const float *share;
    float rate;
};

__device__ __forceinline__ void descend_rows(const DescentOfRows &it, unsigned block, unsigned blocks) {
    const float share = *it.share;
    for_rows_of_table(it.its, block, blocks, [](size_t) { return 0.0f; },
                      [&](size_t place, float sum) { descend_by(it.to[place], sum, share, it.rate, 0.0f); });
}

// The rules of optimizers that keep moments, numbers beside each parameter. Twin of the enum in
// `crates/dynamic/src/batched/tasks.rs`.
enum RuleSort : unsigned { MOMENTUM, NESTEROV, ADAM, ADAM_W };

// A rule's numbers for one step.
struct Rule {
    RuleSort sort;
    float rate, decay;
    // The parts of both moments that a step keeps, and the parts of the gradient that it adds.
    float first_left, first_added, second_left, second_added;
    // Adam's: 1 / (1 - beta1^t), sqrt(1 - beta2^t), and epsilon, at step t.
    float of_first, of_second, epsilon;
};

// Makes a step's rule. The powers of Adam's betas, so far, are multiplied by them.
struct RuleOfStep {
    double first_left, second_left;
    double *powers;
    Rule *rule;
    float rate, decay, epsilon;
    RuleSort sort;
};

__device__ __forceinline__ void make_rule(const RuleOfStep &it) {
    if (threadIdx.x != 0) return;
    Rule rule = {it.sort, it.rate, it.decay, float(it.first_left), 1, 0, 0, 0, 0, it.epsilon};
    if (it.sort == ADAM || it.sort == ADAM_W) {
        const double first = it.powers[0] * it.first_left, second = it.powers[1] * it.second_left;
        it.powers[0] = first;
        it.powers[1] = second;
        rule.first_added = float(1 - it.first_left);
        rule.second_left = float(it.second_left);
        rule.second_added = float(1 - it.second_left);
        rule.of_first = float(1 / (1 - first));
        rule.of_second = sqrtf(float(1 - second));
    }
    *it.rule = rule;
}

// Changes a parameter by a rule. Momentum has one moment, Adam two.
struct Update {
    Parts gradient;
    Element *to;
    float *first, *second;
    const float *share;
    const Rule *rule;
};

__device__ __forceinline__ void update(const Update &it, unsigned block, unsigned blocks) {
    const float share = *it.share;
    const Rule rule = *it.rule;
    for_all_of_task(it.gradient.count, block, blocks, [&](size_t number) {
        float p = to_float(it.to[number]), g = share * it.gradient.sum(number);
        if (rule.sort == ADAM_W) {
            p -= rule.rate * rule.decay * p;
        } else {
            g += rule.decay * p;
        }
        const float first = rule.first_left * it.first[number] + rule.first_added * g;
        it.first[number] = first;
        if (rule.sort == MOMENTUM || rule.sort == NESTEROV) {
            p -= rule.rate * (rule.sort == NESTEROV ? g + rule.first_left * first : first);
        } else {
            const float second = rule.second_left * it.second[number] + rule.second_added * g * g;
            it.second[number] = second;
            p -= rule.rate * rule.of_first * first / (sqrtf(second) / rule.of_second + rule.epsilon);
        }
        it.to[number] = to_element(p);
    });
}
