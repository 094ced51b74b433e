package property

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
)

// Config is what a configuration file says: pins, and properties by the name of their backend, both in the file's order.
type Config struct {
	Pins       []Pin
	Properties map[string][]SubgraphProperty
}

// ErrConfig is wrapped by every *ConfigError.
var ErrConfig = errors.New("bad property configuration")

// ConfigError tells where a configuration is wrong.
type ConfigError struct {
	Line, Col int    // both from 1; Col counts bytes
	Where     string // "pins[2]", "properties[0]", "" for the file
	Err       error
}

// Error returns "line 3, column 7: pins[2]: …".
func (e *ConfigError) Error() string {
	s := fmt.Sprintf("line %d, column %d: ", e.Line, e.Col)
	if e.Where != "" {
		s += e.Where + ": "
	}
	if e.Err == nil {
		return s + ErrConfig.Error()
	}
	return s + e.Err.Error()
}

// Unwrap returns ErrConfig and the cause.
func (e *ConfigError) Unwrap() []error { return []error{ErrConfig, e.Err} }

// MaxConfig is the size in bytes that a configuration may have.
const MaxConfig = 16 << 20

// pinConfig and propertyConfig are the entries of a configuration.
type pinConfig struct {
	Node    string `json:"node"`
	Op      string `json:"op"`
	Backend string `json:"backend"`
	Exclude bool   `json:"exclude"`
}

type propertyConfig struct {
	Backend  string          `json:"backend"`
	Property string          `json:"property"`
	Name     string          `json:"name"`
	Kind     string          `json:"kind"`
	Min      int             `json:"min_nodes"`
	Max      int             `json:"max_nodes"`
	Only     *selection      `json:"only"`
	Except   *selection      `json:"except"`
	Options  json.RawMessage `json:"options"`
}

// selection names nodes by operator and by name; a node that either list names is meant.
type selection struct {
	Ops   []string `json:"ops"`
	Names []string `json:"names"`
}

// ReadConfig reads a JSON configuration:
//
//	{
//	  "pins": [
//	    {"op": "Softmax", "backend": "dsp"},
//	    {"node": "/decoder/**", "backend": "npu", "exclude": true}
//	  ],
//	  "properties": [
//	    {"backend": "npu", "property": "op-list", "name": "convs", "kind": "bounding",
//	     "min_nodes": 2, "max_nodes": 64, "except": {"names": ["/head/*"]},
//	     "options": {"ops": ["Conv", "Relu"]}}
//	  ]
//	}
//
// A property is made by its driver, see Register; name is the driver's where it is not given; kind, min_nodes, max_nodes,
// only and except are as with WithKind, Limit and Where. Unknown fields are errors. The error is a *ConfigError, unless r
// itself fails.
func ReadConfig(r io.Reader) (*Config, error) {
	data, err := io.ReadAll(io.LimitReader(r, MaxConfig+1))
	if err != nil {
		return nil, err
	}
	c := configReader{data: data, out: &Config{Properties: map[string][]SubgraphProperty{}}}
	if len(data) > MaxConfig {
		return nil, c.fail(0, "", fmt.Errorf("it is larger than %d bytes", MaxConfig))
	}
	var whole any
	if err := json.Unmarshal(data, &whole); err != nil { // checks the syntax, of the whole file
		at := int64(len(data))
		if s := (*json.SyntaxError)(nil); errors.As(err, &s) {
			at = s.Offset - 1
		}
		return nil, c.fail(at, "", err)
	}
	if err := c.file(); err != nil {
		return nil, err
	}
	return c.out, nil
}

// configReader walks through a file whose syntax is right.
type configReader struct {
	data []byte
	dec  *json.Decoder
	out  *Config
	seen map[string]bool // backend and name of properties
}

// fail returns the error at an offset.
func (c *configReader) fail(at int64, where string, err error) error {
	before := c.data[:max(0, min(at, int64(len(c.data))))]
	return &ConfigError{
		Line:  1 + bytes.Count(before, []byte{'\n'}),
		Col:   len(before) - bytes.LastIndexByte(before, '\n'),
		Where: where, Err: err,
	}
}

// next returns the offset of the next value or key.
func (c *configReader) next() int64 {
	at := c.dec.InputOffset()
	for at < int64(len(c.data)) && bytes.IndexByte([]byte(" \t\r\n,:"), c.data[at]) >= 0 {
		at++
	}
	return at
}

func (c *configReader) file() error {
	c.dec = json.NewDecoder(bytes.NewReader(c.data))
	at := c.next()
	if t, err := c.dec.Token(); err != nil || t != json.Delim('{') {
		return c.fail(at, "", errors.New("expected an object"))
	}
	had := map[string]bool{}
	for c.dec.More() {
		at := c.next()
		t, err := c.dec.Token()
		key, ok := t.(string)
		if err != nil || !ok {
			return c.fail(at, "", errors.New("expected a key"))
		}
		entry := map[string]func(at int64, where string) error{"pins": c.pin, "properties": c.property}[key]
		if entry == nil {
			return c.fail(at, "", fmt.Errorf("unknown field %q", key))
		}
		if had[key] {
			return c.fail(at, "", fmt.Errorf("%s occurs twice", key))
		}
		had[key] = true
		if err := c.list(key, entry); err != nil {
			return err
		}
	}
	return nil
}

func (c *configReader) list(key string, entry func(at int64, where string) error) error {
	at := c.next()
	if t, err := c.dec.Token(); err != nil || t != json.Delim('[') {
		return c.fail(at, key, errors.New("expected a list"))
	}
	for i := 0; c.dec.More(); i++ {
		if err := entry(c.next(), fmt.Sprintf("%s[%d]", key, i)); err != nil {
			return err
		}
	}
	_, err := c.dec.Token()
	return err
}

// entry reads one entry of a list, strictly.
func (c *configReader) entry(at int64, where string, into any) error {
	var raw json.RawMessage
	err := c.dec.Decode(&raw)
	if err == nil {
		err = DecodeOptions(raw, into)
	}
	if err == nil {
		return nil
	}
	if t := (*json.UnmarshalTypeError)(nil); errors.As(err, &t) {
		if t.Field != "" {
			where += "." + t.Field
		}
		return c.fail(at+t.Offset-1, where, fmt.Errorf("found %s, expected %s", t.Value, jsonName(t.Type.Kind())))
	}
	return c.fail(at, where, err)
}

// jsonName returns what JSON calls the values of a kind.
func jsonName(k reflect.Kind) string {
	switch k {
	case reflect.Struct:
		return "object"
	case reflect.Slice:
		return "array"
	case reflect.Int:
		return "integer"
	}
	return k.String()
}

func (c *configReader) pin(at int64, where string) error {
	var p pinConfig
	if err := c.entry(at, where, &p); err != nil {
		return err
	}
	switch {
	case p.Backend == "":
		return c.fail(at, where, errors.New("backend is missing"))
	case p.Node == "" && p.Op == "":
		return c.fail(at, where, errors.New("node or op has to be given"))
	}
	c.out.Pins = append(c.out.Pins, Pin(p))
	return nil
}

func (c *configReader) property(at int64, where string) error {
	var p propertyConfig
	if err := c.entry(at, where, &p); err != nil {
		return err
	}
	switch {
	case p.Backend == "":
		return c.fail(at, where, errors.New("backend is missing"))
	case p.Property == "":
		return c.fail(at, where, errors.New("property is missing"))
	case p.Min < 0 || p.Max < 0 || p.Max > 0 && p.Min > p.Max:
		return c.fail(at, where, fmt.Errorf("sets of %d to %d nodes", p.Min, p.Max))
	}
	if p.Name == "" {
		p.Name = p.Property
	}
	made, err := open(p.Property, p.Name, p.Options)
	if err != nil {
		return c.fail(at, where, err)
	}
	switch p.Kind {
	case "":
	case Atomic.String():
		made = WithKind(Atomic, made)
	case Bounding.String():
		made = WithKind(Bounding, made)
	case Admitting.String():
		made = WithKind(Admitting, made)
	default:
		return c.fail(at, where, fmt.Errorf("kind %q is not atomic, bounding or admitting", p.Kind))
	}
	if p.Only != nil {
		made = Where(made, p.Only.predicate())
	}
	if p.Except != nil {
		made = Where(made, Not(p.Except.predicate()))
	}
	if p.Min > 0 || p.Max > 0 {
		made = Limit(made, Bounds{Min: p.Min, Max: p.Max})
	}
	key := p.Backend + "\x00" + made.Name()
	if c.seen[key] {
		return c.fail(at, where, fmt.Errorf("two properties of %s are named %q", p.Backend, made.Name()))
	}
	if c.seen == nil {
		c.seen = map[string]bool{}
	}
	c.seen[key] = true
	c.out.Properties[p.Backend] = append(c.out.Properties[p.Backend], made)
	return nil
}

func (s *selection) predicate() Predicate { return Any(Ops(s.Ops...), Named(s.Names...)) }
