// SPDX-License-Identifier: BSL-1.0
/// @file
/// Where the paths of a command line lead, whatever way they take. A path `-` is standard input or standard output; a
/// file of that name is `./-`.
#pragma once

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace echo::format {

/// Whether the path stands for standard input or output.
inline bool is_stream(std::string_view path) noexcept { return path == "-"; }

/// The path for a message.
inline std::string shown_input(const std::string& path) { return is_stream(path) ? "standard input" : path; }

/// The path behind all links, also where the last one leads to a file that is not there yet. A path that cannot be
/// followed is returned as it is: opening it will say what is wrong.
inline std::filesystem::path behind_links(std::filesystem::path path) {
    constexpr int most_links = 40; // as many as Linux follows
    std::error_code failure;
    path = std::filesystem::absolute(path, failure);
    for (int i = 0; i < most_links && std::filesystem::is_symlink(path, failure); ++i) {
        const auto target = std::filesystem::read_symlink(path, failure);
        if (failure) break;
        path = path.parent_path() / target; // an absolute target replaces all
    }
    auto whole = std::filesystem::weakly_canonical(path, failure);
    return failure ? path : whole;
}

/// What a path leads to.
class place {
public:
    static place of_input(const std::string& path) { return {path, STDIN_FILENO}; }
    static place of_output(const std::string& path) { return {path, STDOUT_FILENO}; }

    /// A file or a pipe, which keeps what is written: not a terminal, and not /dev/null.
    bool keeps() const noexcept { return keeps_; }

    friend bool operator==(const place& a, const place& b) {
        if (a.number_ && b.number_ && (a.keeps_ || b.keeps_)) return a.number_ == b.number_;
        return a.path_ == b.path_;
    }

private:
    place(const std::string& path, int stream)
        : path_(is_stream(path) ? path + std::to_string(stream) : behind_links(path).string()) {
        struct stat found = {};
        const int status = is_stream(path) ? ::fstat(stream, &found) : ::stat(path.c_str(), &found);
        if (status != 0) return;
        number_ = {found.st_dev, found.st_ino};
        keeps_ = !S_ISCHR(found.st_mode);
    }

    std::string path_;                                ///< absolute, or that of a stream
    std::optional<std::pair<dev_t, ino_t>> number_{}; ///< of what is there
    bool keeps_ = false;
};

/// Whether both lead to one file; files that are not there yet are compared by where they would be.
inline bool same_file(const std::string& a, const std::string& b) {
    return place::of_output(a) == place::of_output(b);
}

/// `-` for an output that leads to where standard output goes: the program must not write there twice.
inline void name_standard_output(std::string& path) {
    if (path.empty() || is_stream(path)) return;
    const place there = place::of_output(path);
    if (there.keeps() && there == place::of_output("-")) path = "-";
}

} // namespace echo::format
