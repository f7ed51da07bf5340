// SPDX-License-Identifier: Apache-2.0
// The tree of a parsed template. A struct has the fields of all its kinds of nodes; the comment of
// a kind names the fields that it uses.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "coordinator/text/jinja/values/value.h"

namespace lockstep::jinja {

struct Builtin;
struct Expression;
struct Statement;
using ExpressionPtr = std::unique_ptr<Expression>;
using Body = std::vector<Statement>;

enum class Operator : uint8_t {
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kFloorDivide,
  kModulo,
  kPower,
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kIn,
  kNotIn,
};

struct Argument {
  enum class Kind : uint8_t { kPositional, kNamed, kStar, kDoubleStar };
  Kind kind;
  std::string name;
  ExpressionPtr value;
};

struct Expression {
  enum class Kind : uint8_t {
    kConstant,     // constant
    kName,         // name
    kList,         // operands
    kTuple,        // operands
    kDict,         // operands: key, value, key, value, ...
    kAttribute,    // operands[0].name
    kItem,         // operands[0][operands[1]]
    kSlice,        // operands[0][operands[1] : operands[2] : operands[3]]; null where left out
    kCall,         // operands[0](arguments)
    kFilter,       // operands[0] | name(arguments), builtin; operands[0] is null in a filter block
    kTest,         // operands[0] is name(arguments), builtin
    kNegative,     // -operands[0]
    kPositive,     // +operands[0]
    kNot,          // not operands[0]
    kAnd,          // operands[0] and operands[1] and ...
    kOr,           // operands[0] or operands[1] or ...
    kConcat,       // operands[0] ~ operands[1] ~ ...
    kArithmetic,   // operands[0] operators[0] operands[1] operators[1] ..., from the left
    kCompare,      // the same; all comparisons must hold
    kConditional,  // operands[0] if operands[1] else operands[2], which may be null
    kNamespaceAttribute,  // name.attribute, as the target of set
  };
  Kind kind;
  int line = 0;
  int height = 1;  // The levels of this tree.
  std::string name;
  std::string attribute;
  Value constant;
  const Builtin* builtin = nullptr;  // Null: there is no such builtin; its use is an error.
  std::vector<ExpressionPtr> operands;
  std::vector<Operator> operators;
  std::vector<Argument> arguments;
};

ExpressionPtr make_expression(Expression::Kind kind, int line, ExpressionPtr operand = nullptr);

// The parameters and body of a macro or a call block.
struct MacroSyntax {
  std::string name;  // Empty: the body of a call block.
  std::vector<std::string> parameters;
  std::vector<ExpressionPtr> defaults;  // The last parameters' defaults.
  bool uses_varargs = false;            // Whether the body uses these names.
  bool uses_kwargs = false;
  bool uses_caller = false;
  Body body;
};

struct Branch {
  ExpressionPtr condition;  // Null: else.
  Body body;
};

struct Statement {
  enum class Kind : uint8_t {
    kData,        // text
    kOutput,      // expressions, each printed
    kSet,         // expressions: target, value
    kSetBlock,    // expressions: filter (or null), target; body
    kIf,          // branches
    kFor,         // expressions: target, items, condition (or null); body; otherwise; recursive
    kBreak,       //
    kContinue,    //
    kMacro,       // macro
    kCallBlock,   // expressions: the call; macro
    kFilter,      // expressions: the filter; body
    kWith,        // expressions: target, value, target, value, ...; body
    kGeneration,  // body
  };
  Kind kind;
  int line = 0;
  MarkedText text;
  std::vector<ExpressionPtr> expressions;
  std::vector<Branch> branches;
  Body body;
  Body otherwise;
  bool recursive = false;
  std::unique_ptr<MacroSyntax> macro;
};

}  // namespace lockstep::jinja
