// SPDX-License-Identifier: GPL-2.0-or-later
#include "app/run.h"

int main(int argc, char** argv) {
  return ply::app::run(std::vector<std::string>(argv, argv + argc));
}
