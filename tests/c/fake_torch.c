/* The part of libtorch's global context that tells whether PyTorch asks for determinism, under libtorch's own symbols. */
#include <stdbool.h>

typedef struct {
    bool algorithms, cudnn;
} Context;

static Context context;

/* at::globalContext() */
Context *_ZN2at13globalContextEv(void) { return &context; }
/* at::Context::deterministicCuDNN() const */
bool _ZNK2at7Context18deterministicCuDNNEv(const Context *self) { return self->cudnn; }
#ifndef OTHER_VERSION
/* at::Context::deterministicAlgorithms() const */
bool _ZNK2at7Context23deterministicAlgorithmsEv(const Context *self) { return self->algorithms; }
#endif
/* at::Context::setDeterministicCuDNN(bool) */
void _ZN2at7Context21setDeterministicCuDNNEb(Context *self, bool value) { self->cudnn = value; }
/* at::Context::setDeterministicAlgorithms(bool, bool) */
void _ZN2at7Context26setDeterministicAlgorithmsEbb(Context *self, bool value, bool warns) {
    (void)warns;
    self->algorithms = value;
}
