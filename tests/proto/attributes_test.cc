// SPDX-License-Identifier: Apache-2.0
#include "proto/attributes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "operators/attribute_fields.h"
#include "operators/schema/schema.h"

namespace lockstep {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// Sets the field; a list gets one element. Returns the text to expect: the value, the name of a
// bool field, or the enum's name.
std::string set(Message& message, const FieldDescriptor& field, int value) {
  const Reflection& to = *message.GetReflection();
  const bool list = field.is_repeated();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_FLOAT:
      list ? to.AddFloat(&message, &field, static_cast<float>(value))
           : to.SetFloat(&message, &field, static_cast<float>(value));
      break;
    case FieldDescriptor::CPPTYPE_INT32:
      list ? to.AddInt32(&message, &field, value) : to.SetInt32(&message, &field, value);
      break;
    case FieldDescriptor::CPPTYPE_INT64:
      list ? to.AddInt64(&message, &field, value) : to.SetInt64(&message, &field, value);
      break;
    case FieldDescriptor::CPPTYPE_BOOL:
      to.SetBool(&message, &field, true);
      return field.name();
    case FieldDescriptor::CPPTYPE_ENUM: {
      const google::protobuf::EnumValueDescriptor& second = *field.enum_type()->value(1);
      to.SetEnum(&message, &field, &second);
      return absl::AsciiStrToLower(second.name());
    }
    default:
      ADD_FAILURE() << field.full_name() << " has a type that this test does not know";
  }
  return std::to_string(value);
}

// Sets every field of a message. Expects that the message's text has all values, and that the
// message is the same after it was bound and written again.
TEST(AttributesTest, EveryFieldOfEveryKindIsBoundPrintedAndWritten) {
  const google::protobuf::OneofDescriptor& kinds =
      *program::Attributes::descriptor()->oneof_decl(0);
  for (int k = 0; k < kinds.field_count(); ++k) {
    program::Attributes attributes;
    Message& kind = *attributes.GetReflection()->MutableMessage(&attributes, kinds.field(k));
    const google::protobuf::Descriptor& fields = *kind.GetDescriptor();
    std::vector<std::string> wanted;
    wanted.reserve(static_cast<size_t>(fields.field_count()));
    for (int i = 0; i < fields.field_count(); ++i) {
      wanted.push_back(set(kind, *fields.field(i), 71 + 11 * i));
    }
    const std::string text = attributes_text(attributes);
    for (int i = 0; i < fields.field_count(); ++i) {
      EXPECT_THAT(text, ::testing::HasSubstr(wanted[static_cast<size_t>(i)]))
          << fields.field(i)->full_name();
    }
    const program::Attributes written = to_message(bind_attributes(attributes));
    EXPECT_EQ(written.SerializeAsString(), attributes.SerializeAsString()) << text;
  }
}

TEST(AttributesTest, AKindHasTheFieldsOfItsMessage) {
  const google::protobuf::OneofDescriptor& kinds =
      *program::Attributes::descriptor()->oneof_decl(0);
  for (int k = 0; k < kinds.field_count(); ++k) {
    const google::protobuf::Descriptor& message = *kinds.field(k)->message_type();
    std::set<std::string> own, found;
    for (int i = 0; i < message.field_count(); ++i) own.insert(message.field(i)->name());
    OperatorAttrs(static_cast<AttrsKind>(kinds.field(k)->number())).apply([&](auto& fields) {
      visit_fields(fields, [&](const AttrsField& field, const auto&) { found.insert(field.name); });
    });
    EXPECT_EQ(found, own) << message.name()
                          << ": operators/attributes.inc and proto/program.proto differ";
  }
}

TEST(AttributesTest, EveryKindBelongsToAnOperator) {
  const google::protobuf::OneofDescriptor& kinds =
      *program::Attributes::descriptor()->oneof_decl(0);
  for (int k = 0; k < kinds.field_count(); ++k) {
    bool found = false;
    for (int i = 1; i < kOpCount; ++i) {
      const AttrsKind kind = schema_of(static_cast<Op>(i)).attrs;
      found = found || static_cast<int>(kind) == kinds.field(k)->number();
    }
    EXPECT_TRUE(found) << kinds.field(k)->name()
                       << ": no schema in operators/schema/schema.cc has it";
  }
}

}  // namespace
}  // namespace lockstep
