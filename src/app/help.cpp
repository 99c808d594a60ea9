// SPDX-License-Identifier: GPL-2.0-or-later
#include "app/help.h"

#define FUSE_USE_VERSION 314
#include <fmt/core.h>
#include <fuse_lowlevel.h>

namespace ply::app {

std::string help_text(const CommandLine& line) {
  const std::string usage = fmt::format("usage: {} [user@]host:[directory] mountpoint [options]\n", line.program);
  const std::string more =
      line.persona == Persona::Plyfs
          ? "       plyfs mount SOURCE MOUNTPOINT [options]   the same, with rclone mount's options\n"
            "       plyfs demo                               shows what each operation costs\n"
          : "";
  return usage + more + R"(
Mounts a directory of another machine over ssh. Unmount with: fusermount3 -u mountpoint

General:
    -h  --help             this text
    -V  --version          versions
    -f                     stay in the foreground
    -d  -o debug           foreground, and say what happens
    -v  -o verbose         show what ssh says
    -o OPTION[,OPTION...]  any of the options below

Connecting:
    -p PORT                ssh to this port
    -C                     compress
    -F FILE                ssh_config file
    -o NAME=VALUE          any option of ssh_config(5), e.g. IdentityFile=~/.ssh/key
    -o ssh_command=CMD     run CMD instead of 'ssh'
    -o sftp_server=S       subsystem, or path of the sftp-server program (default: sftp)
    -o password_stdin      read the password from standard input
    -o no_reconnect        end when the connection is lost (default: -o reconnect, make it again)
    -o onloss=fail|wait    while the server is away, programs get errors (default), or wait for it
    -o timeo=SECONDS       it is away when it answers nothing for so long (default: 8)
    -o umount_timeout=SECONDS
                           after an unmount, give up what the server does not take for so long (default: 30)
    -o delay_connect       connect when the mount is first used
    -o no_check_root       do not check that the directory exists
    -o max_conns=N         up to N connections (default: 1)
    -o lanes=yes|no        several channels, small files in one round trip (default: yes)
    -o directport=PORT     plain TCP, without ssh
    -o vsock=CID:PORT      a virtual machine's socket
    -o passive             speak SFTP over standard input and output

Caching and writing:
    -o dir_cache=yes|no    keep attributes and listings (default: yes)
    -o dcache_timeout=N    for N seconds (default: 20); also dcache_stat_timeout, dcache_dir_timeout and
                           dcache_link_timeout
    -o dcache_max_size=N   at most N names (default: 100000)
    -o attr_timeout=N      what the kernel keeps; also entry_timeout, negative_timeout
                           (default: as long as it is known to be good)
    -o revalidate=open     ask the server at each open whether a cached file has changed (default: timeout)
    -o memory=SIZE         for file contents: cached, read ahead, being written (default: 256M)
    -o kernel_cache        keep file contents over close and open, whatever changes
    -o auto_cache          keep them while size and time stay the same (default); -o noauto_cache: never
    -o direct_io           do not cache file contents
    -o writeback=close     write in the background, close waits for the server (default)
    -o writeback=none      every write waits for the server; also -o sshfs_sync
    -o max_read=N          bytes per request (default: what the server takes); also max_write
    -o sync_readdir        list directories one request at a time

Owners, modes and links:
    -o uid=N,gid=N         show every file as owned by them
    -o umask=M             show every file with mode 0777 less M (octal)
    -o idmap=none|user     user: the login user's files are shown as mine
    -o idmap=file,uidfile=F,gidfile=F,nomap=ignore|error
                           translate owners by name:id files
    -o symlinks=safe|verbatim|deny
                           safe: links work inside the mount, those that leave it lead nowhere (default)
    -o contain_symlinks    sshfs's rule: refuse absolute links and ".." (default when called sshfs)
    -o no_contain_symlinks, transform_symlinks, follow_symlinks, disable_hardlink
    -o modules=subdir,subdir=DIR[,rellinks]
    -o modules=iconv,from_code=CHARSET,to_code=CHARSET
                           from_code: the server's names
    -o workaround=LIST     as sshfs's; most are not needed

Mounting:
    -o allow_other         let other users in; checks permissions when the login is root's
    -o allow_root, default_permissions, auto_unmount
    -o ro, rw, nosuid, nodev, noexec, noatime, sync, dirsync
    -o fsname=NAME, subtype=NAME

Options of old versions and of fstab (large_read, nonempty, nofail, _netdev, x-*, ...) are accepted; -d tells which
have no effect.
)";
}

std::string version_text(const CommandLine& line) {
  const char* const called = line.persona == Persona::Plyfs ? "" : ", called as ";
  return fmt::format("plyfs version {}{}{}\nFUSE library version {}\nFUSE API version {}.{}\n", PLYFS_VERSION, called,
                     line.persona == Persona::Plyfs ? "" : line.program, fuse_pkgversion(), FUSE_MAJOR_VERSION,
                     FUSE_MINOR_VERSION);
}

}  // namespace ply::app
