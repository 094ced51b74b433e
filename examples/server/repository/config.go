package repository

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
)

// ErrConfig is wrapped by errors about a model's configuration; they name the field.
var ErrConfig = errors.New("configuration of a model")

// Config is a model's configuration: the common fields of Triton's config.pbtxt. A field that is not known here is an error that
// names it, since leaving it out would serve something else than was asked for.
type Config struct {
	message *dynamicpb.Message
	batch   int // max_batch_size, which each request asks for
}

// maxConfig bounds a configuration, in bytes: a hundred times as many are kept of one that is full of empty entries.
const maxConfig = 1 << 20

// ParseConfig reads the text form, config.pbtxt.
func ParseConfig(text []byte) (*Config, error) {
	c, err := configOf(text)
	if err != nil {
		return nil, err
	}
	if err := prototext.Unmarshal(text, c.message); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	return c, c.check()
}

// ParseJSON reads the form that load calls carry.
func ParseJSON(text []byte) (*Config, error) {
	c, err := configOf(text)
	if err != nil {
		return nil, err
	}
	if err := protojson.Unmarshal(text, c.message); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	return c, c.check()
}

// configOf returns a configuration that a text is to be read into.
func configOf(text []byte) (*Config, error) {
	if len(text) > maxConfig {
		return nil, fmt.Errorf("%w: it has %d bytes, at most %d are taken", ErrConfig, len(text), maxConfig)
	}
	return newConfig()
}

func newConfig() (*Config, error) {
	t, err := configType()
	if err != nil {
		return nil, err
	}
	return &Config{message: dynamicpb.NewMessage(t)}, nil
}

// check settles the configuration, and turns down what would be served otherwise than it says.
func (c *Config) check() error {
	if c.batch = int(number(c.message, "max_batch_size")); c.batch < 0 {
		return fmt.Errorf("%w: max_batch_size is %d", ErrConfig, c.batch)
	}
	instances := int64(0)
	for _, g := range list(c.message, "instance_group") {
		if kind := enum(g, "kind"); kind == "KIND_GPU" {
			return fmt.Errorf("%w: instance_group.kind %s: processors are chosen by the server's backends", ErrConfig, kind)
		}
		n := number(g, "count")
		if instances += max(n, 1); n < 0 || instances > maxInstances {
			return fmt.Errorf("%w: instance_group.count is %d, at most %d are taken together", ErrConfig, n, maxInstances)
		}
	}
	if d := sub(c.message, "dynamic_batching"); d != nil {
		if err := checkBatching(d, c.batch); err != nil {
			return err
		}
	}
	switch platform := text(c.message, "platform"); platform {
	case "", Platform, "onnxruntime_onnx":
	default:
		return fmt.Errorf("%w: platform %q", ErrConfig, platform)
	}
	return nil
}

// maxInstances bounds the counts of all instance_groups together.
const maxInstances = 1024

// maxLevels bounds priority_levels.
const maxLevels = 1 << 20

// checkBatching turns down a dynamic_batching that says what cannot be, or what the server does not do.
func checkBatching(d protoreflect.Message, most int) error {
	levels, level := number(d, "priority_levels"), number(d, "default_priority_level")
	switch p := sub(d, "default_queue_policy"); {
	case p != nil && enum(p, "timeout_action") != "REJECT":
		return fmt.Errorf("%w: dynamic_batching.default_queue_policy.timeout_action is %s, only REJECT is done", ErrConfig, enum(p, "timeout_action"))
	case d.Has(field(d, "priority_queue_policy")):
		return fmt.Errorf("%w: dynamic_batching.priority_queue_policy: all levels have the default_queue_policy", ErrConfig)
	case levels > maxLevels:
		return fmt.Errorf("%w: dynamic_batching.priority_levels is %d, at most %d are taken", ErrConfig, levels, maxLevels)
	case levels > 0 && (level == 0 || level > levels), levels == 0 && level > 0:
		return fmt.Errorf("%w: dynamic_batching.default_priority_level is %d, which is none of the %d priority_levels", ErrConfig, level, levels)
	}
	sizes := d.Get(field(d, "preferred_batch_size")).List()
	for i := range sizes.Len() {
		if n := sizes.Get(i).Int(); n <= 0 || n > int64(most) {
			return fmt.Errorf("%w: dynamic_batching.preferred_batch_size is %d, max_batch_size %d", ErrConfig, n, most)
		}
	}
	return nil
}

// Platform is what metadata call a model's platform: the name that clients know for ONNX.
const Platform = "onnx_onnxv1"

// Name returns the name, "" where the configuration has none.
func (c *Config) Name() string { return text(c.message, "name") }

// File returns the name of a version's model file, "" for the default.
func (c *Config) File() string { return text(c.message, "default_model_filename") }

// MaxBatch returns max_batch_size: 0 where the model's first dim is no batch.
func (c *Config) MaxBatch() int { return c.batch }

// Instances returns how many runs may be under way at a time, 0 for the default.
func (c *Config) Instances() int {
	n := 0
	for _, g := range list(c.message, "instance_group") {
		n += max(1, int(number(g, "count")))
	}
	return n
}

// Batching returns what dynamic_batching says; nil where it is absent.
func (c *Config) Batching() *Batching {
	d := sub(c.message, "dynamic_batching")
	if d == nil {
		return nil
	}
	b := &Batching{Delay: micros(d, "max_queue_delay_microseconds"), Levels: int(number(d, "priority_levels")), Level: int(number(d, "default_priority_level"))}
	if p := sub(d, "default_queue_policy"); p != nil {
		b.Queue, b.Timeout = int(number(p, "max_queue_size")), micros(p, "default_timeout_microseconds")
	}
	sizes := d.Get(field(d, "preferred_batch_size")).List()
	for i := range sizes.Len() {
		b.Preferred = append(b.Preferred, int(sizes.Get(i).Int()))
	}
	return b
}

// Batching is how requests of a model are joined.
type Batching struct {
	Preferred     []int         // sizes of batches
	Delay         time.Duration // that a request may wait for others
	Levels, Level int           // of priority, 1 the highest, and the default one among them; 0 for none
	Queue         int           // most requests that wait; 0 for the default
	Timeout       time.Duration // of a request that waits; 0 for none
}

// rank returns how many levels behind the default one, or before it where that is negative, a request of a priority is to wait: 0 where there
// are no levels. What runs of several models wait for together is so shared as if none had levels.
func (b *Batching) rank(priority uint64) int {
	if b == nil || priority == 0 || priority > uint64(b.Levels) {
		return 0
	}
	return int(priority) - b.Level
}

// versions returns which of the versions that there are, in ascending order, are served: the newest, by default.
func (c *Config) versions(there []int64) ([]int64, error) {
	p := sub(c.message, "version_policy")
	switch {
	case p != nil && sub(p, "all") != nil:
		return there, nil
	case p != nil && sub(p, "specific") != nil:
		s := sub(p, "specific")
		wanted := s.Get(field(s, "versions")).List()
		var out []int64
		for i := range wanted.Len() {
			for _, v := range there {
				if v == wanted.Get(i).Int() {
					out = append(out, v)
				}
			}
		}
		if len(out) != wanted.Len() {
			return nil, fmt.Errorf("%w: version_policy.specific names versions that are not there", ErrConfig)
		}
		return out, nil
	}
	n := 1
	if p != nil && sub(p, "latest") != nil {
		n = max(1, int(number(sub(p, "latest"), "num_versions")))
	}
	return there[max(0, len(there)-n):], nil
}

// labels returns the label file of each output that has one.
func (c *Config) labels() map[string]string {
	out := map[string]string{}
	for _, o := range list(c.message, "output") {
		if file := text(o, "label_filename"); file != "" {
			out[text(o, "name")] = file
		}
	}
	return out
}

// complete returns the configuration with name, platform, inputs and outputs of a model, as clients ask for it. Declared ports are
// compared with the model's, whose open dims become what is declared of them.
func (c *Config) complete(name string, inputs, outputs []Port) (*Config, error) {
	full := &Config{message: proto.Clone(c.message).(*dynamicpb.Message), batch: c.batch}
	m := full.message
	if own := full.Name(); own != "" && own != name {
		return nil, fmt.Errorf("%w: name is %q, the model's folder %q", ErrConfig, own, name)
	}
	m.Set(field(m, "name"), protoreflect.ValueOfString(name))
	m.Set(field(m, "platform"), protoreflect.ValueOfString(Platform))
	m.Set(field(m, "backend"), protoreflect.ValueOfString("carve"))
	for _, p := range inputs {
		if c.MaxBatch() > 0 && p.Shape != nil && (len(p.Shape) == 0 || p.Shape[0] >= 0) {
			return nil, fmt.Errorf("%w: max_batch_size is %d, the first dim of input %q of shape %v is not open", ErrConfig, c.MaxBatch(), p.Name, p.Shape)
		}
	}
	if err := full.ports("input", inputs); err != nil {
		return nil, err
	}
	return full, full.ports("output", outputs)
}

// ports writes the model's ports into a field that declares some or none of them.
func (c *Config) ports(name string, ports []Port) error {
	f := field(c.message, name)
	declared := map[string]protoreflect.Message{}
	for _, d := range list(c.message, name) {
		if own := text(d, "name"); declared[own] == nil {
			declared[own] = d
		} else {
			return fmt.Errorf("%w: %s %q is declared twice", ErrConfig, name, own)
		}
	}
	out := c.message.NewField(f)
	for i := range ports {
		p, e := &ports[i], out.List().NewElement()
		m := e.Message()
		shape := p.Shape
		if c.MaxBatch() > 0 && len(shape) > 0 {
			shape = shape[1:]
		}
		if d := declared[p.Name]; d != nil {
			if kind := "TYPE_" + configName(p.Datatype); enum(d, "data_type") != kind && enum(d, "data_type") != "TYPE_INVALID" {
				return fmt.Errorf("%w: %s %q is declared %s, the model has %s", ErrConfig, name, p.Name, enum(d, "data_type"), kind)
			}
			if err := narrow(shape, d.Get(field(d, "dims")).List()); err != nil {
				return fmt.Errorf("%w: %s %q: %w", ErrConfig, name, p.Name, err)
			}
			proto.Merge(m.Interface(), d.Interface())
			m.Clear(field(m, "dims"))
			delete(declared, p.Name)
		}
		m.Set(field(m, "name"), protoreflect.ValueOfString(p.Name))
		m.Set(field(m, "data_type"), protoreflect.ValueOfEnum(field(m, "data_type").Enum().Values().ByName(protoreflect.Name("TYPE_"+configName(p.Datatype))).Number()))
		dims := m.Mutable(field(m, "dims")).List()
		for _, d := range shape {
			dims.Append(protoreflect.ValueOfInt64(d))
		}
		if p.Optional {
			m.Set(field(m, "optional"), protoreflect.ValueOfBool(true))
		}
		out.List().Append(e)
	}
	for d := range declared {
		return fmt.Errorf("%w: the model has no %s %q", ErrConfig, name, d)
	}
	c.message.Set(f, out)
	return nil
}

// narrow gives the open dims of a shape the sizes that are declared for them. No declared dims, and a shape whose rank is open, agree with
// everything.
func narrow(shape []int64, declared protoreflect.List) error {
	if declared.Len() == 0 || shape == nil {
		return nil
	}
	dims := make([]int64, declared.Len())
	for i := range dims {
		dims[i] = declared.Get(i).Int()
	}
	wrong := len(dims) != len(shape)
	for i := 0; i < len(dims) && !wrong; i++ {
		wrong = dims[i] < -1 || dims[i] >= 0 && shape[i] >= 0 && dims[i] != shape[i]
	}
	if wrong {
		return fmt.Errorf("its dims are declared %v, the model has %v", dims, shape)
	}
	for i, d := range dims {
		shape[i] = max(shape[i], d)
	}
	return nil
}

// configName returns how a configuration calls a datatype.
func configName(datatype string) string {
	if datatype == "BYTES" {
		return "STRING"
	}
	return datatype
}

// Wire returns the configuration in protobuf's wire format, as a ModelConfig.
func (c *Config) Wire() ([]byte, error) {
	return proto.MarshalOptions{Deterministic: true}.Marshal(c.message)
}

// MarshalJSON returns the configuration as Triton's config calls answer: names as in the text form, integers as numbers, and
// fields that are not set with their defaults.
func (c *Config) MarshalJSON() ([]byte, error) { return json.Marshal(plain(c.message)) }

// plain returns a message as what encoding/json writes.
func plain(m protoreflect.Message) map[string]any {
	out := map[string]any{}
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		name, v := string(f.Name()), m.Get(f)
		switch {
		case f.IsMap():
			entries := map[string]any{}
			v.Map().Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
				entries[k.String()] = plainValue(f.MapValue(), v)
				return true
			})
			out[name] = entries
		case f.IsList():
			values := make([]any, v.List().Len())
			for i := range values {
				values[i] = plainValue(f, v.List().Get(i))
			}
			out[name] = values
		case f.HasPresence() && !m.Has(f):
		default:
			out[name] = plainValue(f, v)
		}
	}
	return out
}

func plainValue(f protoreflect.FieldDescriptor, v protoreflect.Value) any {
	switch {
	case f.Message() != nil:
		return plain(v.Message())
	case f.Enum() != nil:
		if e := f.Enum().Values().ByNumber(v.Enum()); e != nil {
			return string(e.Name())
		}
		return strconv.Itoa(int(v.Enum()))
	}
	return v.Interface()
}

func field(m protoreflect.Message, name string) protoreflect.FieldDescriptor {
	return m.Descriptor().Fields().ByName(protoreflect.Name(name))
}

func text(m protoreflect.Message, name string) string { return m.Get(field(m, name)).String() }

func boolean(m protoreflect.Message, name string) bool { return m.Get(field(m, name)).Bool() }

// number returns an integer field, of whatever size.
func number(m protoreflect.Message, name string) int64 {
	if v := m.Get(field(m, name)); field(m, name).Kind() == protoreflect.Uint64Kind || field(m, name).Kind() == protoreflect.Uint32Kind {
		return int64(min(v.Uint(), 1<<62))
	}
	return m.Get(field(m, name)).Int()
}

// micros returns a field of microseconds, at most a day.
func micros(m protoreflect.Message, name string) time.Duration {
	return time.Duration(min(number(m, name), int64(24*time.Hour/time.Microsecond))) * time.Microsecond
}

func enum(m protoreflect.Message, name string) string {
	f := field(m, name)
	if v := f.Enum().Values().ByNumber(m.Get(f).Enum()); v != nil {
		return string(v.Name())
	}
	return strconv.Itoa(int(m.Get(f).Enum()))
}

// sub returns a message field, nil where it is not set.
func sub(m protoreflect.Message, name string) protoreflect.Message {
	if f := field(m, name); m.Has(f) {
		return m.Get(f).Message()
	}
	return nil
}

// list returns a repeated field of messages.
func list(m protoreflect.Message, name string) []protoreflect.Message {
	l := m.Get(field(m, name)).List()
	out := make([]protoreflect.Message, l.Len())
	for i := range out {
		out[i] = l.Get(i).Message()
	}
	return out
}
