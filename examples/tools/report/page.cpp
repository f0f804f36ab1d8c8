// SPDX-License-Identifier: BSL-1.0
/// @file
/// Puts the parts of a page into its template.

#include "command_line/one_line.hpp"
#include "report/assets.hpp"
#include "report/pack.hpp"
#include "report/page.hpp"

#include <echo/error.hpp>

#include <span>
#include <utility>

namespace echo::report {
namespace {

/// Text as HTML: nothing in it is a tag or an entity.
std::string escaped(std::string_view text) {
    std::string made;
    for (const char c : format::one_line(text)) switch (c) {
        case '&':
            made += "&amp;";
            break;
        case '<':
            made += "&lt;";
            break;
        case '>':
            made += "&gt;";
            break;
        case '"':
            made += "&quot;";
            break;
        default:
            made += c;
        }
    return made;
}

std::string tiles_html(const page_head& head) {
    std::string made;
    for (const tile& t : head.tiles)
        made += "<div class=\"tile\"><dt>" + escaped(t.label) + "</dt><dd><strong>" + escaped(t.figure) +
                "</strong><span>" + escaped(t.note) + "</span></dd></div>\n";
    return made;
}

std::string sentences_html(const page_head& head) {
    std::string made;
    for (const auto& sentence : head.sentences) made += "<p>" + escaped(sentence) + "</p>\n";
    return made;
}

using part = std::pair<std::string_view, std::string_view>;

/// The template with `{{NAME}}` replaced; what is put in is not looked at again.
std::string filled(std::string_view text, std::span<const part> parts) {
    std::string made;
    while (true) {
        const auto open = text.find("{{"), close = text.find("}}", open);
        if (open == std::string_view::npos || close == std::string_view::npos) break;
        made += text.substr(0, open);
        const auto name = text.substr(open + 2, close - open - 2);
        for (const auto& [known, content] : parts)
            if (known == name) made += content;
        text.remove_prefix(close + 2);
    }
    return made += text;
}

} // namespace

bool can_draw() { return !assets::library.empty(); }

std::string_view how_to_draw() {
    return "run python3 examples/tools/report/get_uplot.py (it takes uPlot from a package of PyPI), then "
           "configure and build "
           "again";
}

std::string make_page(const page_head& head, std::string_view data) {
    if (!can_draw())
        throw error({}, "--report", "this program was built without uPlot, which draws the report",
                    std::string(how_to_draw()));
    const std::string title = escaped(head.title), subtitle = escaped(head.subtitle);
    const std::string tiles = tiles_html(head), sentences = sentences_html(head), packed = pack(data);
    const part parts[] = {{"title", title},
                          {"subtitle", subtitle},
                          {"tiles", tiles},
                          {"sentences", sentences},
                          {"style", assets::style},
                          {"script", assets::script},
                          {"library", assets::library},
                          {"library_style", assets::library_style},
                          {"licence", assets::licence},
                          {"data", packed}};
    return filled(assets::page, parts);
}

} // namespace echo::report
