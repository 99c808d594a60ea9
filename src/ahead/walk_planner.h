// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace ply::ahead {

/// What to fetch before it is asked for.
struct WalkWish {
  std::vector<std::string> directories;  ///< to be listed
  struct File {
    std::string path;
    std::uint64_t size = 0;
  };
  std::vector<File> files;  ///< to be read as a whole
  bool empty() const { return directories.empty() && files.empty(); }
};

/// Recognises programs that go through a tree (find, ls -R, git status, grep -r, tar, rsync) and says which directories
/// to list and which small files to read next: depth first from where the program is, as such programs go. It begins
/// with a few and asks for twice as many each time one of them was used; what is fetched and not used within seconds
/// halves that. Bounded in what it remembers. Pure: no I/O, the time is given.
class WalkPlanner {
 public:
  struct Options {
    std::uint64_t max_file_size = 0;  ///< larger files are not read ahead; 0: none is
    double patience = 5;              ///< seconds until what was not used counts as wasted
  };
  explicit WalkPlanner(Options options) : options_(options) {}

  enum class Interest {
    Listing,  ///< a program reads the directory
    Names     ///< a program looks up names in it: every path leads through directories that way
  };
  WalkWish directory_wanted(const std::string& path, Interest interest, double now);
  /// A program reads a small file from its beginning.
  WalkWish file_wanted(const std::string& path, double now);

  struct Entry {
    std::string_view name;
    bool is_directory = false;
    bool is_regular = false;
    std::uint64_t size = 0;
  };
  /// The directory's content is known, by whoever asked for it.
  WalkWish listed(const std::string& path, const std::vector<Entry>& entries, double now);
  /// What was wished for could not be had.
  void failed(const std::string& path);
  /// The names at or below the path have changed: what was known of them is forgotten.
  void forget(const std::string& path);

  std::uint64_t wasted() const { return wasted_; }

 private:
  struct File {
    std::string name;
    std::uint64_t size = 0;
    bool done = false;  // wished for, or read by the program itself
  };
  struct Directory {
    bool by_program = false;  // it was wanted
    int children_wanted = 0;
    bool is_listed = false;
    bool exhausted = false;        // nothing more to list below
    bool files_exhausted = false;  // nothing more to read below
    int files_read = 0;
    std::vector<std::string> subdirectories;
    std::vector<File> files;
  };
  /// What was wished for and not used yet, of one kind.
  struct Window {
    explicit Window(std::uint64_t first_size, std::uint64_t most_size)
        : first(first_size), most(most_size), allowed(first_size) {}
    std::uint64_t first;
    std::uint64_t most;
    std::uint64_t allowed;
    std::uint64_t outstanding = 0;
    bool has_room() const { return outstanding < allowed; }
  };
  struct Outstanding {
    double since = 0;
    std::uint64_t amount = 0;
    bool is_file = false;
  };

  Directory* find(const std::string& path);
  void take_from(WalkWish& wish, const std::string& path, double now);
  bool collect_directories(const std::string& path, WalkWish& wish, double now, int depth);
  bool collect_files(const std::string& path, WalkWish& wish, double now, int depth);
  void wish_for(const std::string& path, std::uint64_t amount, bool is_file, double now);
  bool used(const std::string& path);
  void expire(double now);
  void bound();

  Options options_;
  std::map<std::string, Directory> directories_;
  std::size_t names_ = 0;  // in all of them
  std::map<std::string, Outstanding> outstanding_;
  Window listings_{32, 2048};
  Window bytes_{128 * 1024, 8 << 20};
  bool walking_ = false;
  bool reading_ = false;
  int files_on_the_way_ = 0;   // read by the program in directories that it had just listed
  std::string position_;       // the directory where the program is
  std::string listed_;         // the last one that it listed
  double last_directory_ = 0;  // when the program came to one, or to a file
  double last_file_ = 0;
  double last_expiry_ = 0;
  std::uint64_t wasted_ = 0;
};

}  // namespace ply::ahead
