// SPDX-License-Identifier: BSL-1.0
/// @file
/// `output_file`: a file that is either written whole or not at all. Bytes go to a file beside it, which
/// takes its name on `commit`. A name that ends in `.gz` is written compressed, since it will be read so.
#pragma once

#include "command_line/file_error.hpp"
#include "command_line/place.hpp"
#include "command_line/unfinished.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

namespace echo::format {

/// Errors: `file_error`, which names the path: it cannot be made, written or renamed.
class output_file {
public:
    /// `-`: standard output, which cannot be taken back.
    explicit output_file(const std::string& path) : path_(path) {
        stream_.reset(open());
        if (!stream_) fail("no memory to write it");
    }
    output_file(const output_file&) = delete;
    output_file& operator=(const output_file&) = delete;

    void write(std::string_view bytes) {
        while (!bytes.empty()) {
            const auto part = bytes.substr(0, std::size_t{1} << 20);
            if (::gzwrite(stream_.get(), part.data(), static_cast<unsigned>(part.size())) <= 0) fail_write();
            bytes.remove_prefix(part.size());
        }
    }

    /// All bytes are in the file: whatever fails after this is not the disk's fault. Call before `commit`.
    void finish() {
        errno = 0;
        if (::gzclose(stream_.release()) != Z_OK) fail(errno ? std::strerror(errno) : "cannot be written");
    }

    /// Gives the file its name. Call after `finish`.
    void commit() {
        if (!temporary_) return;
        const signals_wait until_named;
        if (::rename(temporary_->path().c_str(), target_.c_str()) != 0) fail(std::strerror(errno));
        temporary_->keep();
        temporary_.reset();
    }

private:
    struct release {
        void operator()(gzFile_s* stream) const noexcept { ::gzclose(stream); }
    };

    gzFile_s* open() {
        const int descriptor = is_stream(path_) ? ::dup(STDOUT_FILENO) : open_descriptor();
        if (descriptor < 0) fail(std::strerror(errno));
        // "T": as it stands, without compression. Level 6 is zlib's own default.
        gzFile_s* const stream = ::gzdopen(descriptor, path_.ends_with(".gz") ? "wb6" : "wbT");
        if (!stream) ::close(descriptor);
        return stream;
    }
    int open_descriptor() {
        struct stat there = {};
        const bool exists = ::stat(path_.c_str(), &there) == 0;
        if (exists && S_ISDIR(there.st_mode)) fail("is a directory");
        // What is no regular file (a pipe, /dev/null) can only be written to, not replaced.
        if (exists && !S_ISREG(there.st_mode)) return ::open(path_.c_str(), O_WRONLY | O_CLOEXEC);
        // A link is written through, not replaced.
        target_ = path_.empty() ? path_ : behind_links(path_).string();
        std::error_code ignored;
        if (std::filesystem::is_symlink(target_, ignored)) { // a ring of links
            errno = ELOOP;
            return -1;
        }
        if (exists && ::access(target_.c_str(), W_OK) != 0) return -1;
        const signals_wait until_made;
        const std::string name = target_ + "." + std::to_string(::getpid()) + ".tmp";
        const int descriptor = ::open(name.c_str(), O_WRONLY | O_CLOEXEC | O_CREAT | O_EXCL,
                                      exists ? there.st_mode & 0777 : 0666);
        if (descriptor >= 0) temporary_.emplace(name);
        return descriptor;
    }
    [[noreturn]] void fail_write() const {
        int code = 0;
        const char* const message = ::gzerror(stream_.get(), &code);
        fail(code == Z_ERRNO ? std::strerror(errno) : message);
    }
    [[noreturn]] void fail(std::string_view reason) const {
        throw file_error({}, is_stream(path_) ? "standard output" : path_,
                         "cannot be written: " + std::string(reason),
                         "name a file in a writable folder that has room");
    }

    std::string path_, target_{};
    std::optional<unfinished> temporary_{};
    std::unique_ptr<gzFile_s, release> stream_{};
};

} // namespace echo::format
