// SPDX-License-Identifier: GPL-2.0-or-later
// Must fail under AddressSanitizer: see tests/CMakeLists.txt.
#include <vector>

int main(int argc, char**) {
  std::vector<int> numbers(4);
  return numbers.data()[3 + argc];
}
