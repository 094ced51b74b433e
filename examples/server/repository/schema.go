package repository

import (
	"fmt"
	"strconv"
	"strings"
	"sync"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
)

// schema lists the messages of a model's configuration that are understood, with the names and field numbers that Triton's public
// model_config.proto gives them: a message or enum, then its members, one a line. "*" marks repeated fields, "|x" members of
// the oneof x, "map" maps from a key to a message.
const schema = `
message ModelConfig
  1 string name
  2 string platform
  3 ModelVersionPolicy version_policy
  4 int32 max_batch_size
  5 ModelInput* input
  6 ModelOutput* output
  7 ModelInstanceGroup* instance_group
  8 string default_model_filename
  11 ModelDynamicBatching|scheduling_choice dynamic_batching
  13 ModelSequenceBatching|scheduling_choice sequence_batching
  14 map:string:ModelParameter parameters
  16 ModelWarmup* model_warmup
  17 string backend
message ModelVersionPolicy
  1 VersionLatest|policy_choice latest
  2 VersionAll|policy_choice all
  3 VersionSpecific|policy_choice specific
message VersionLatest
  1 uint32 num_versions
message VersionAll
message VersionSpecific
  1 int64* versions
message ModelTensorReshape
  1 int64* shape
message ModelInput
  1 string name
  2 DataType data_type
  3 Format format
  4 int64* dims
  8 bool optional
message ModelOutput
  1 string name
  2 DataType data_type
  3 int64* dims
  4 string label_filename
message ModelInstanceGroup
  1 string name
  2 int32 count
  4 Kind kind
message ModelQueuePolicy
  1 TimeoutAction timeout_action
  2 uint64 default_timeout_microseconds
  3 bool allow_timeout_override
  4 uint32 max_queue_size
message ModelDynamicBatching
  1 int32* preferred_batch_size
  2 uint64 max_queue_delay_microseconds
  3 bool preserve_ordering
  4 uint64 priority_levels
  5 uint64 default_priority_level
  6 ModelQueuePolicy default_queue_policy
  7 map:uint64:ModelQueuePolicy priority_queue_policy
message ModelSequenceBatching
  1 uint64 max_sequence_idle_microseconds
  2 ControlInput* control_input
  3 StrategyDirect|strategy_choice direct
  4 StrategyOldest|strategy_choice oldest
  5 State* state
message StrategyDirect
message StrategyOldest
  1 int32 max_candidate_sequences
message ControlInput
  1 string name
  2 Control* control
message Control
  1 ControlKind kind
  2 int32* int32_false_true
  3 float* fp32_false_true
  4 DataType data_type
  5 bool* bool_false_true
message State
  1 string input_name
  2 string output_name
  3 DataType data_type
  4 int64* dims
  5 InitialState* initial_state
message InitialState
  1 DataType data_type
  2 int64* dims
  3 bool|state_data zero_data
  4 string|state_data data_file
  5 string name
message ModelWarmup
  1 string name
  2 uint32 batch_size
  3 map:string:WarmupInput inputs
  4 uint32 count
message WarmupInput
  1 DataType data_type
  2 int64* dims
  3 bool|input_data_type zero_data
  4 bool|input_data_type random_data
  5 string|input_data_type input_data_file
message ModelParameter
  1 string string_value
enum DataType
  0 TYPE_INVALID
  1 TYPE_BOOL
  2 TYPE_UINT8
  3 TYPE_UINT16
  4 TYPE_UINT32
  5 TYPE_UINT64
  6 TYPE_INT8
  7 TYPE_INT16
  8 TYPE_INT32
  9 TYPE_INT64
  10 TYPE_FP16
  11 TYPE_FP32
  12 TYPE_FP64
  13 TYPE_STRING
  14 TYPE_BF16
enum Format
  0 FORMAT_NONE
  1 FORMAT_NHWC
  2 FORMAT_NCHW
enum Kind
  0 KIND_AUTO
  1 KIND_GPU
  2 KIND_CPU
  3 KIND_MODEL
enum TimeoutAction
  0 REJECT
  1 DELAY
enum ControlKind
  0 CONTROL_SEQUENCE_START
  1 CONTROL_SEQUENCE_READY
  2 CONTROL_SEQUENCE_END
  3 CONTROL_SEQUENCE_CORRID
`

// configType returns the descriptor of ModelConfig. It lies in no registry, so that programs with generated code of the same
// messages start.
var configType = sync.OnceValues(func() (protoreflect.MessageDescriptor, error) {
	b := &schemaBuilder{file: &descriptorpb.FileDescriptorProto{
		Name: proto.String("carve/model_config.proto"), Package: proto.String("carve.server"), Syntax: proto.String("proto3"),
	}, enums: map[string]bool{}}
	for line := range strings.Lines(schema) {
		if name, ok := strings.CutPrefix(line, "enum "); ok {
			b.enums[strings.TrimSpace(name)] = true
		}
	}
	for line := range strings.Lines(schema) {
		if err := b.line(strings.Fields(line)); err != nil {
			return nil, err
		}
	}
	f, err := protodesc.NewFile(b.file, nil)
	if err != nil {
		return nil, err
	}
	return f.Messages().ByName("ModelConfig"), nil
})

// schemaBuilder turns the schema's lines into descriptors.
type schemaBuilder struct {
	file  *descriptorpb.FileDescriptorProto
	enums map[string]bool
	enum  bool // the last one begun is one
}

func (b *schemaBuilder) line(words []string) error {
	switch {
	case len(words) == 0:
		return nil
	case words[0] == "message":
		b.file.MessageType = append(b.file.MessageType, &descriptorpb.DescriptorProto{Name: &words[1]})
		b.enum = false
		return nil
	case words[0] == "enum":
		b.file.EnumType = append(b.file.EnumType, &descriptorpb.EnumDescriptorProto{Name: &words[1]})
		b.enum = true
		return nil
	}
	number, err := strconv.ParseInt(words[0], 10, 32)
	if err != nil {
		return fmt.Errorf("schema: %w", err)
	}
	if b.enum {
		e := b.file.EnumType[len(b.file.EnumType)-1]
		e.Value = append(e.Value, &descriptorpb.EnumValueDescriptorProto{Name: &words[1], Number: proto.Int32(int32(number))})
		return nil
	}
	b.field(b.file.MessageType[len(b.file.MessageType)-1], int32(number), words[1], words[2])
	return nil
}

// field adds a field to a message.
func (b *schemaBuilder) field(m *descriptorpb.DescriptorProto, number int32, kind, name string) {
	f := &descriptorpb.FieldDescriptorProto{Name: &name, Number: &number, Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum()}
	m.Field = append(m.Field, f)
	if types, ok := strings.CutPrefix(kind, "map:"); ok {
		key, value, _ := strings.Cut(types, ":")
		entry := &descriptorpb.DescriptorProto{Name: proto.String(entryName(name)), Options: &descriptorpb.MessageOptions{MapEntry: proto.Bool(true)}}
		b.field(entry, 1, key, "key")
		b.field(entry, 2, value, "value")
		m.NestedType = append(m.NestedType, entry)
		f.Label = descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum()
		f.Type = descriptorpb.FieldDescriptorProto_TYPE_MESSAGE.Enum()
		f.TypeName = proto.String(".carve.server." + m.GetName() + "." + entry.GetName())
		return
	}
	kind, oneof, _ := strings.Cut(kind, "|")
	if oneof != "" {
		f.OneofIndex = proto.Int32(oneofIndex(m, oneof))
	}
	kind, repeated := strings.CutSuffix(kind, "*")
	if repeated {
		f.Label = descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum()
	}
	if t, ok := descriptorpb.FieldDescriptorProto_Type_value["TYPE_"+strings.ToUpper(kind)]; ok {
		f.Type = descriptorpb.FieldDescriptorProto_Type(t).Enum()
		return
	}
	f.Type, f.TypeName = descriptorpb.FieldDescriptorProto_TYPE_MESSAGE.Enum(), proto.String(".carve.server."+kind)
	if b.enums[kind] {
		f.Type = descriptorpb.FieldDescriptorProto_TYPE_ENUM.Enum()
	}
}

// oneofIndex returns the index of a oneof of m, which it adds where there is none.
func oneofIndex(m *descriptorpb.DescriptorProto, name string) int32 {
	for i, o := range m.OneofDecl {
		if o.GetName() == name {
			return int32(i)
		}
	}
	m.OneofDecl = append(m.OneofDecl, &descriptorpb.OneofDescriptorProto{Name: &name})
	return int32(len(m.OneofDecl) - 1)
}

// entryName returns the name that protobuf gives the entries of a map: "PriorityQueuePolicyEntry" for priority_queue_policy.
func entryName(field string) string {
	var out strings.Builder
	for word := range strings.SplitSeq(field, "_") {
		out.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return out.String() + "Entry"
}
