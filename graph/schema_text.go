package graph

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// ErrSchema is wrapped by errors about a text that describes no operator.
var ErrSchema = errors.New("bad schema")

// maxSchema bounds the bytes of a schema's text, and with them all that it may describe.
const maxSchema = 1 << 16

// ParseSchema reads one version of an operator from text, a line for each of inputs, outputs, attributes and type variables:
//
//	in NAME:TYPE …      TYPE is a type variable or an ONNX type string, such as tensor(int64); the name is followed by ? where
//	out NAME:TYPE …     the port may be absent, * where it stands for any number of them, + where these differ in type
//	at NAME:KIND …      KIND is int, float, string, tensor, ints, floats or strings, then ! (required) or =DEFAULT (of lists
//	                    with commas)
//	ty VAR=TYPES …      the types that a variable admits, with commas: float,double stands for tensor(float) and tensor(double)
//
// For example "in X:T\nout Y:T\nat alpha:float=1\nty T=float". Lines may be left out. What follows of types has to be set in
// Infer. The error wraps ErrSchema, or ErrOperator for an operator without a name or in a domain of ONNX's or carve's own.
func ParseSchema(domain, name string, since int, text string) (*Schema, error) {
	if name == "" || ownDomain(domainKey(domain)) {
		return nil, fmt.Errorf("%w: %q of the domain %q", ErrOperator, capped(name), capped(domain))
	}
	s := &Schema{Domain: domain, Name: name, Since: since}
	if since < 1 || len(text) > maxSchema {
		return nil, fmt.Errorf("%w: %v since version %d, of %d bytes", ErrSchema, Op{Domain: domain, Name: name}, since, len(text))
	}
	r := schemaReader{s: s, seen: map[string]bool{}}
	for line := range strings.Lines(text) {
		if err := r.line(line); err != nil {
			return nil, fmt.Errorf("%w: %v: %w", ErrSchema, Op{Domain: domain, Name: name}, err)
		}
	}
	if err := r.check(); err != nil {
		return nil, fmt.Errorf("%w: %v: %w", ErrSchema, Op{Domain: domain, Name: name}, err)
	}
	return s, nil
}

// schemaReader fills a schema line by line.
type schemaReader struct {
	s    *Schema
	seen map[string]bool // lines, and names of attributes
}

func (r *schemaReader) line(line string) error {
	fields := strings.Fields(line)
	if len(fields) == 0 {
		return nil
	}
	word, fields := fields[0], fields[1:]
	if r.seen[word] {
		return fmt.Errorf("two lines %q", capped(word))
	}
	r.seen[word] = true
	switch word {
	case "in":
		r.s.Inputs = readPorts(fields)
		return checkPorts(r.s.Inputs)
	case "out":
		r.s.Outputs = readPorts(fields)
		return checkPorts(r.s.Outputs)
	case "at":
		return r.attrs(fields)
	case "ty":
		return r.types(fields)
	}
	return fmt.Errorf("a line %q, which is none of in, out, at and ty", capped(word))
}

// checkPorts checks all but the types.
func checkPorts(ports []Param) error {
	for i, p := range ports {
		if p.Name == "" || p.Type == "" {
			return fmt.Errorf("port %d is %q of type %q", i, capped(p.Name), capped(p.Type))
		}
		if p.Variadic && i < len(ports)-1 || p.Hetero && !p.Variadic {
			return fmt.Errorf("port %q: * stands at the last one alone, and + behind it", capped(p.Name))
		}
	}
	return nil
}

// plainKinds are the kinds of attributes that a text may name.
var plainKinds = []string{"int", "ints", "float", "floats", "string", "strings", "tensor"}

func (r *schemaReader) attrs(fields []string) error {
	for _, f := range fields {
		name, rest, _ := strings.Cut(f, ":")
		kind, value, hasDefault := strings.Cut(rest, "=")
		kind, required := strings.CutSuffix(kind, "!")
		if name == "" || !slices.Contains(plainKinds, kind) || r.seen["at "+name] || required && hasDefault {
			return fmt.Errorf("attribute %q", capped(f))
		}
		r.seen["at "+name] = true
		a := AttrSpec{Name: name, Kind: attrKinds[kind], Required: required}
		if hasDefault {
			d, err := parseDefault(name, a.Kind, value)
			if err != nil {
				return fmt.Errorf("attribute %q: %w", capped(f), err)
			}
			a.Default = d
		}
		r.s.Attrs = append(r.s.Attrs, a)
	}
	return nil
}

// parseDefault is readDefault for a text that is not carve's.
func parseDefault(name string, kind AttrKind, s string) (*Attr, error) {
	a := Attr{Name: name, Kind: kind}
	var err error
	switch kind {
	case AttrInt:
		a.Int, err = strconv.ParseInt(s, 10, 64)
	case AttrFloat:
		a.Float, err = parseFloat(s)
	case AttrString:
		a.Str = s
	case AttrInts:
		for x := range strings.SplitSeq(s, ",") {
			n, e := strconv.ParseInt(x, 10, 64)
			a.Ints, err = append(a.Ints, n), errors.Join(err, e)
		}
	case AttrFloats:
		for x := range strings.SplitSeq(s, ",") {
			n, e := parseFloat(x)
			a.Floats, err = append(a.Floats, n), errors.Join(err, e)
		}
	case AttrStrings:
		a.Strs = strings.Split(s, ",")
	default:
		err = errors.New("no default can be written for it")
	}
	return &a, err
}

func parseFloat(s string) (float32, error) {
	f, err := strconv.ParseFloat(s, 32)
	return float32(f), err
}

func (r *schemaReader) types(fields []string) error {
	r.s.Types = make(map[string][]string, len(fields))
	for _, f := range fields {
		name, set, _ := strings.Cut(f, "=")
		if name == "" || r.s.Types[name] != nil {
			return fmt.Errorf("type variable %q", capped(f))
		}
		for short := range strings.SplitSeq(set, ",") {
			long, err := checkedType(short)
			if err != nil {
				return err
			}
			r.s.Types[name] = append(r.s.Types[name], long)
		}
	}
	return nil
}

// checkedType returns the ONNX type string of a short form, such as float or S.float.
func checkedType(short string) (string, error) {
	if len(short) > 64 {
		return "", fmt.Errorf("type %q", capped(short))
	}
	long := longType(short)
	if typeName(parseTypeName(long)) != long {
		return "", fmt.Errorf("type %q", short)
	}
	return long, nil
}

// check looks whether every port has a type that there is.
func (r *schemaReader) check() error {
	for _, p := range slices.Concat(r.s.Inputs, r.s.Outputs) {
		if _, ok := r.s.Types[p.Type]; !ok && (len(p.Type) > 64 || typeName(parseTypeName(p.Type)) != p.Type) {
			return fmt.Errorf("port %q is of type %q, which is neither a variable nor a type", capped(p.Name), capped(p.Type))
		}
	}
	if len(r.s.Outputs) == 0 {
		return errors.New("it has no outputs")
	}
	return nil
}

// BindSchemas gives nodes of operators that have no registered schema one that lookup knows, in g and in the regions of its
// nodes. lookup is asked with the version of the operator set that the graph imports, and returns nil where it knows none.
// It returns how many nodes got one. Cost: O(V).
func (g *Graph) BindSchemas(lookup func(domain, name string, version int) *Schema) int {
	bound := 0
	for n := range g.Nodes() {
		for _, r := range n.Regions {
			bound += r.Graph.BindSchemas(lookup)
		}
		if n.Schema != nil || ownDomain(domainKey(n.Op.Domain)) {
			continue
		}
		if s := lookup(n.Op.Domain, n.Op.Name, versionFor(g, n.Op)); s != nil {
			n.Schema, n.Op.Since = s, s.Since
			bound++
		}
	}
	return bound
}
