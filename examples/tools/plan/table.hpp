// SPDX-License-Identifier: BSL-1.0
/// @file
/// `table`: rows of text in aligned columns.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace echo::format {

/// The first column stands left, the others right. Cells are ASCII.
class table {
public:
    using row = std::vector<std::string>;
    explicit table(row head) { add(std::move(head)); }
    void add(row cells) { rows_.push_back(std::move(cells)); }

    std::string text() const {
        std::vector<std::size_t> width;
        for (const auto& cells : rows_) {
            width.resize(std::max(width.size(), cells.size()));
            for (std::size_t i = 0; i < cells.size(); ++i) width[i] = std::max(width[i], cells[i].size());
        }
        std::string out;
        for (const auto& cells : rows_) {
            for (std::size_t i = 0; i < cells.size(); ++i) {
                const std::string padding(width[i] - cells[i].size(), ' ');
                out += i == 0 ? cells[i] + padding : "  " + padding + cells[i];
            }
            out += '\n';
        }
        return out;
    }

private:
    std::vector<row> rows_;
};

} // namespace echo::format
