// SPDX-License-Identifier: Apache-2.0
// Derives Unicode 9's data from today's: without characters added later, and with later changes
// undone.
#include "coordinator/text/unicode/unicode_9.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "coordinator/text/unicode/unicode_properties.h"

namespace lockstep {
namespace {

constexpr std::string_view kHan = "Han";
constexpr std::string_view kScripts[] = {kHan,
                                         "Common",
                                         "Latin",
                                         "Bopomofo",
                                         "Inherited",
                                         "Greek",
                                         "Coptic",
                                         "Cyrillic",
                                         "Armenian",
                                         "Hebrew",
                                         "Arabic",
                                         "Syriac",
                                         "Thaana",
                                         "Nko",
                                         "Samaritan",
                                         "Mandaic",
                                         "Devanagari",
                                         "Bengali",
                                         "Gurmukhi",
                                         "Gujarati",
                                         "Oriya",
                                         "Tamil",
                                         "Telugu",
                                         "Kannada",
                                         "Malayalam",
                                         "Sinhala",
                                         "Thai",
                                         "Lao",
                                         "Tibetan",
                                         "Myanmar",
                                         "Georgian",
                                         "Hangul",
                                         "Ethiopic",
                                         "Cherokee",
                                         "Canadian_Aboriginal",
                                         "Ogham",
                                         "Runic",
                                         "Tagalog",
                                         "Hanunoo",
                                         "Buhid",
                                         "Tagbanwa",
                                         "Khmer",
                                         "Mongolian",
                                         "Limbu",
                                         "Tai_Le",
                                         "New_Tai_Lue",
                                         "Buginese",
                                         "Tai_Tham",
                                         "Balinese",
                                         "Sundanese",
                                         "Batak",
                                         "Lepcha",
                                         "Ol_Chiki",
                                         "Braille",
                                         "Glagolitic",
                                         "Tifinagh",
                                         "Yi",
                                         "Lisu",
                                         "Vai",
                                         "Bamum",
                                         "Syloti_Nagri",
                                         "Phags_Pa",
                                         "Saurashtra",
                                         "Kayah_Li",
                                         "Rejang",
                                         "Javanese",
                                         "Cham",
                                         "Tai_Viet",
                                         "Meetei_Mayek",
                                         "Linear_B",
                                         "Lycian",
                                         "Carian",
                                         "Old_Italic",
                                         "Gothic",
                                         "Old_Permic",
                                         "Ugaritic",
                                         "Old_Persian",
                                         "Deseret",
                                         "Shavian",
                                         "Osmanya",
                                         "Osage",
                                         "Elbasan",
                                         "Caucasian_Albanian",
                                         "Linear_A",
                                         "Cypriot",
                                         "Imperial_Aramaic",
                                         "Palmyrene",
                                         "Nabataean",
                                         "Hatran",
                                         "Phoenician",
                                         "Lydian",
                                         "Meroitic_Hieroglyphs",
                                         "Meroitic_Cursive",
                                         "Kharoshthi",
                                         "Old_South_Arabian",
                                         "Old_North_Arabian",
                                         "Manichaean",
                                         "Avestan",
                                         "Inscriptional_Parthian",
                                         "Inscriptional_Pahlavi",
                                         "Psalter_Pahlavi",
                                         "Old_Turkic",
                                         "Old_Hungarian",
                                         "Brahmi",
                                         "Kaithi",
                                         "Sora_Sompeng",
                                         "Chakma",
                                         "Mahajani",
                                         "Sharada",
                                         "Khojki",
                                         "Multani",
                                         "Khudawadi",
                                         "Grantha",
                                         "Newa",
                                         "Tirhuta",
                                         "Siddham",
                                         "Modi",
                                         "Takri",
                                         "Ahom",
                                         "Warang_Citi",
                                         "Pau_Cin_Hau",
                                         "Bhaiksuki",
                                         "Marchen",
                                         "Cuneiform",
                                         "Egyptian_Hieroglyphs",
                                         "Anatolian_Hieroglyphs",
                                         "Mro",
                                         "Bassa_Vah",
                                         "Pahawh_Hmong",
                                         "Miao",
                                         "Tangut",
                                         "Duployan",
                                         "SignWriting",
                                         "Mende_Kikakui",
                                         "Adlam",
                                         "Hiragana",
                                         "Katakana"};
static_assert(kScripts[0] == kHan);

// Scripts that characters had in Unicode 9 and no longer have.
struct Former {
  CodePointSet::Range range;
  std::string_view script;
};
constexpr Former kFormer[] = {
    {{0x589, 0x589}, "Common"}, {{0x61C, 0x61C}, "Common"}, {{0x953, 0x954}, "Devanagari"}};

// Characters added later, and unassigned code points between them.
// clang-format off
constexpr CodePointSet::Range kLater[] = {
    {0x558, 0x558}, {0x560, 0x560}, {0x588, 0x588}, {0x58B, 0x58C}, {0x5C8, 0x5C9},
    {0x5EF, 0x5EF}, {0x61D, 0x61D}, {0x7FD, 0x7FF}, {0x860, 0x89F}, {0x8B5, 0x8B5},
    {0x8BE, 0x8D3}, {0x9FC, 0x9FE}, {0xA76, 0xA76}, {0xAFA, 0xAFF}, {0xB53, 0xB55},
    {0xC04, 0xC04}, {0xC3C, 0xC3C}, {0xC5C, 0xC5D}, {0xC77, 0xC77}, {0xC84, 0xC84},
    {0xCDC, 0xCDD}, {0xCF3, 0xD00}, {0xD04, 0xD04}, {0xD3B, 0xD3C}, {0xD81, 0xD81},
    {0xE86, 0xE86}, {0xE89, 0xE89}, {0xE8C, 0xE8C}, {0xE8E, 0xE93}, {0xE98, 0xE98},
    {0xEA0, 0xEA0}, {0xEA8, 0xEA9}, {0xEAC, 0xEAC}, {0xEBA, 0xEBA}, {0xECE, 0xECE},
    {0x170D, 0x170D}, {0x1715, 0x171F}, {0x180F, 0x180F}, {0x1878, 0x1878}, {0x1ABF, 0x1AF0},
    {0x1B4C, 0x1B4F}, {0x1B7D, 0x1B7F}, {0x1C89, 0x1CBF}, {0x1CF7, 0x1CF7}, {0x1CFA, 0x1CFA},
    {0x1DF6, 0x1DFA}, {0x208F, 0x208F}, {0x209D, 0x209F}, {0x20BF, 0x20C4}, {0x23FF, 0x23FF},
    {0x2427, 0x2429}, {0x2B96, 0x2B97}, {0x2BBA, 0x2BBC}, {0x2BC9, 0x2BC9}, {0x2BD2, 0x2BEB},
    {0x2BF0, 0x2BFF}, {0x2C2F, 0x2C2F}, {0x2C5F, 0x2C5F}, {0x2E45, 0x2E63}, {0x2FFC, 0x2FFF},
    {0x312E, 0x312F}, {0x31BB, 0x31BF}, {0x31E4, 0x31EF}, {0x32FF, 0x32FF}, {0x4DB6, 0x4DBF},
    {0x9FD6, 0x9FFF}, {0xA7AF, 0xA7AF}, {0xA7B8, 0xA7F6}, {0xA82C, 0xA82C}, {0xA8FE, 0xA8FF},
    {0xAB66, 0xAB6D}, {0xFBC2, 0xFBD2}, {0xFD40, 0xFD4F}, {0xFD90, 0xFD91}, {0xFDC8, 0xFDCF},
    {0xFDFE, 0xFDFF}, {0x1019C, 0x1019C}, {0x1032D, 0x1032F}, {0x10570, 0x105F3},
    {0x10780, 0x107BF}, {0x10940, 0x10959}, {0x10A34, 0x10A35}, {0x10A48, 0x10A48},
    {0x10D00, 0x10D8F}, {0x10E80, 0x10FF6}, {0x11070, 0x11075}, {0x110C2, 0x110CD},
    {0x11144, 0x11147}, {0x111CE, 0x111CF}, {0x1123F, 0x11241}, {0x1133B, 0x1133B},
    {0x11380, 0x113E2}, {0x1145A, 0x1145A}, {0x1145E, 0x11461}, {0x116B8, 0x116B9},
    {0x116D0, 0x116E3}, {0x1171A, 0x1171A}, {0x11740, 0x1183B}, {0x11900, 0x11ABF},
    {0x11B00, 0x11BF9}, {0x11D00, 0x11FFF}, {0x1246F, 0x1246F}, {0x12475, 0x1247F},
    {0x12550, 0x12FF2}, {0x1342F, 0x143FA}, {0x16100, 0x16139}, {0x16A70, 0x16AC9},
    {0x16D40, 0x16ED3}, {0x16F45, 0x16F4F}, {0x16F7F, 0x16F87}, {0x16FE1, 0x16FF6},
    {0x187ED, 0x187FF}, {0x18AF3, 0x191D2}, {0x1AFF0, 0x1AFFE}, {0x1B002, 0x1B2FB},
    {0x1CC00, 0x1CFC3}, {0x1D127, 0x1D128}, {0x1D1E9, 0x1D1FF}, {0x1D250, 0x1D2F3},
    {0x1D372, 0x1D378}, {0x1D6A6, 0x1D6A6}, {0x1DB00, 0x1DFFF}, {0x1E030, 0x1E7FE},
    {0x1E94B, 0x1E94B}, {0x1EC71, 0x1ED3D}, {0x1F10D, 0x1F10F}, {0x1F12F, 0x1F12F},
    {0x1F16C, 0x1F16F}, {0x1F1AD, 0x1F1AE}, {0x1F260, 0x1F265}, {0x1F6D3, 0x1F6DF},
    {0x1F6F7, 0x1F6FC}, {0x1F774, 0x1F77F}, {0x1F7D5, 0x1F7FF}, {0x1F8B0, 0x1F90F},
    {0x1F91F, 0x1F91F}, {0x1F928, 0x1F92F}, {0x1F931, 0x1F932}, {0x1F93F, 0x1F93F},
    {0x1F94C, 0x1F94F}, {0x1F95F, 0x1F97F}, {0x1F992, 0x1F9BF}, {0x1F9C1, 0x1FBFA},
    {0x2A6D7, 0x2A6DF}, {0x2B735, 0x2B73F}, {0x2B81E, 0x2B81E}, {0x2CEA2, 0x2EE5D},
    {0x30000, 0x33479}, {0x3D000, 0x3FC3F},
};
// clang-format on

// The long-vowel mark, which Hiragana and Katakana share.
constexpr char32_t kLongVowel = 0x30FC;

const CodePointSet& characters_of_unicode_9() {
  static const CodePointSet set = [] {
    CodePointSet later;
    for (const CodePointSet::Range& range : kLater) later.add(range);
    return later.complement();
  }();
  return set;
}

struct ScriptRange {
  CodePointSet::Range range;
  int script;
};

std::vector<ScriptRange> make_script_ranges() {
  std::vector<ScriptRange> ranges;
  for (int script = 0; script < static_cast<int>(std::size(kScripts)); ++script) {
    const std::string_view name = kScripts[script];
    CodePointSet set =
        property_set(name).value_or(CodePointSet()).intersection(characters_of_unicode_9());
    CodePointSet others = {{' ', ' '}, {kLongVowel, kLongVowel}};
    for (const Former& former : kFormer) {
      (former.script == name ? set : others).add(former.range);
    }
    set = set.intersection(others.complement());
    if (name == kHan) set.add({kLongVowel, kLongVowel});
    const bool is_kana = name == "Hiragana" || name == "Katakana";
    for (const CodePointSet::Range& range : set.ranges()) {
      ranges.push_back({range, is_kana ? 0 : script});
    }
  }
  std::ranges::sort(ranges, {}, [](const ScriptRange& each) { return each.range.first; });
  return ranges;
}

}  // namespace

bool is_mark_of_unicode_9(char32_t code_point) {
  static const CodePointSet marks = [] {
    CodePointSet set = property_set("M").value_or(CodePointSet());
    set.add({0x1CF2, 0x1CF3});  // Letters since Unicode 12.
    const CodePointSet no_marks_then = {{0x111C9, 0x111C9}};
    return set.intersection(characters_of_unicode_9()).intersection(no_marks_then.complement());
  }();
  return marks.contains(code_point);
}

int script_of_unicode_9(char32_t code_point) {
  static const std::vector<ScriptRange> ranges = make_script_ranges();
  const auto after = std::ranges::upper_bound(
      ranges, code_point, {}, [](const ScriptRange& each) { return each.range.first; });
  if (after == ranges.begin() || std::prev(after)->range.last < code_point) return kAnyScript;
  return std::prev(after)->script;
}

}  // namespace lockstep
