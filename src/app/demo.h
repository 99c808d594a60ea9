// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

namespace ply::app {

/// Mounts a sample directory through a local sftp-server (the same code as over ssh, no server needed), lists, writes
/// and reads in it, and prints what each cost in round trips. Returns the exit status.
int run_demo();

}  // namespace ply::app
