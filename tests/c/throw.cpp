// An exception that passes from the real library to the program. With LIBRARY this file throws it; without, it catches
// it.
#include <cstdio>
#include <stdexcept>
#include <string>

extern "C" std::size_t cudnnGetVersion();
extern "C" void cudnnOpTensor(int number);

#ifdef LIBRARY
extern "C" std::size_t cudnnGetVersion() { return 91900; }
extern "C" void cudnnOpTensor(int number) { throw std::runtime_error(std::to_string(number)); }
#else
int main() {
    for (int number = 1; number <= 2; number++) {
        try {
            cudnnOpTensor(number);
            return 1;
        } catch (const std::runtime_error &error) {
            if (error.what() != std::to_string(number)) return 1;
        }
    }
    std::puts("passed");
}
#endif
