package graph

import (
	_ "embed"
	"fmt"
	"strconv"
	"strings"
)

// onnxTable is the text of all operators of ONNX; its head describes the format.
//
//go:embed schemas.txt
var onnxTable string

// onnxParsed is what was read of the table so far; the registry's lock guards it.
var onnxParsed struct {
	ops   map[[2]string]string // the text of each operator's versions
	sets  []string             // the text of each set of types
	types map[string][]string  // sets that were expanded, by text
	names map[string]string    // ONNX type strings by short form
}

// onnxIndex returns where the operators stand in the table. It scans the table once.
func onnxIndex() map[[2]string]string {
	p := &onnxParsed
	if p.ops != nil {
		return p.ops
	}
	p.ops, p.types, p.names = make(map[[2]string]string, 256), map[string][]string{}, map[string]string{}
	text := onnxTable
	for strings.HasPrefix(text, "#") || strings.HasPrefix(text, "set ") {
		line, rest, _ := strings.Cut(text, "\n")
		if s, ok := strings.CutPrefix(line, "set "); ok {
			_, set, _ := strings.Cut(s, " ")
			p.sets = append(p.sets, set)
		}
		text = rest
	}
	text = "\n" + text
	for _, block := range strings.Split(text, "\nop ")[1:] {
		head, body, _ := strings.Cut(block, "\n")
		i := strings.LastIndexByte(head, '/')
		p.ops[[2]string{head[:i], head[i+1:]}] = body
	}
	return p.ops
}

// onnxSchemas reads the versions of an operator; nil where ONNX has none of that name.
func onnxSchemas(key [2]string) []*Schema {
	body, ok := onnxIndex()[key]
	if !ok {
		return nil
	}
	var list []*Schema
	for _, line := range strings.Split(strings.TrimSuffix(body, "\n"), "\n") {
		word, rest, _ := strings.Cut(line, " ")
		if word == "v" {
			s := &Schema{}
			if len(list) > 0 {
				*s = *list[len(list)-1]
			}
			since, mark, _ := strings.Cut(rest, " ")
			s.Domain, s.Name, s.Since = key[0], key[1], mustInt(since)
			s.Deprecated = mark != ""
			list = append(list, s)
			continue
		}
		s := list[len(list)-1]
		fields := strings.Fields(rest)
		switch word {
		case "in":
			s.Inputs = readPorts(fields)
		case "out":
			s.Outputs = readPorts(fields)
		case "at":
			s.Attrs = readAttrs(fields)
		case "ty":
			s.Types = make(map[string][]string, len(fields))
			for _, f := range fields {
				name, set, _ := strings.Cut(f, "=")
				s.Types[name] = typeSet(onnxParsed.sets[mustInt(set)])
			}
		}
	}
	for _, s := range list {
		s.Infer = onnxInfer(s.Domain, s.Name)
		s.Random = isRandom(s.Domain, s.Name)
	}
	return list
}

func mustInt(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		panic(fmt.Sprintf("graph: operator table: %v", err)) // the table is part of the program
	}
	return n
}

func readPorts(fields []string) []Param {
	out := make([]Param, 0, len(fields))
	for _, f := range fields {
		name, typ, _ := strings.Cut(f, ":")
		p := Param{Type: typ}
		p.Name = strings.TrimRight(name, "?*+")
		marks := name[len(p.Name):]
		p.Optional = strings.Contains(marks, "?")
		p.Variadic = strings.Contains(marks, "*")
		p.Hetero = strings.Contains(marks, "+")
		out = append(out, p)
	}
	return out
}

var attrKinds = map[string]AttrKind{
	"int": AttrInt, "ints": AttrInts, "float": AttrFloat, "floats": AttrFloats, "string": AttrString,
	"strings": AttrStrings, "tensor": AttrTensor, "sparse_tensor": AttrTensor, "type_proto": AttrType, "graph": AttrNone,
}

func readAttrs(fields []string) []AttrSpec {
	out := make([]AttrSpec, 0, len(fields))
	for _, f := range fields {
		name, kind, _ := strings.Cut(f, ":")
		kind, def, hasDefault := strings.Cut(kind, "=")
		kind, required := strings.CutSuffix(kind, "!")
		a := AttrSpec{Name: name, Kind: attrKinds[kind], Required: required}
		if hasDefault {
			a.Default = readDefault(name, a.Kind, def)
		}
		out = append(out, a)
	}
	return out
}

func readDefault(name string, kind AttrKind, s string) *Attr {
	a := Attr{Name: name, Kind: kind}
	switch kind {
	case AttrInt:
		a.Int = int64(mustInt(s))
	case AttrFloat:
		f, err := strconv.ParseFloat(s, 32)
		if err != nil {
			panic(fmt.Sprintf("graph: operator table: %v", err))
		}
		a.Float = float32(f)
	case AttrString:
		a.Str = s
	case AttrInts:
		for _, x := range strings.Split(s, ",") {
			a.Ints = append(a.Ints, int64(mustInt(x)))
		}
	case AttrStrings:
		a.Strs = strings.Split(s, ",")
	}
	return &a
}

// typeSet expands a set of short types to ONNX type strings, shared between all schemas that name the set.
func typeSet(set string) []string {
	if out, ok := onnxParsed.types[set]; ok {
		return out
	}
	var out []string
	for _, short := range strings.Fields(set) {
		name, ok := onnxParsed.names[short]
		if !ok {
			name = longType(short)
			onnxParsed.names[short] = name
		}
		out = append(out, name)
	}
	onnxParsed.types[set] = out
	return out
}

func longType(short string) string {
	switch {
	case strings.HasPrefix(short, "O."):
		return "optional(" + longType(short[2:]) + ")"
	case strings.HasPrefix(short, "S."):
		return "seq(" + longType(short[2:]) + ")"
	case strings.HasPrefix(short, "M."):
		key, value, _ := strings.Cut(short[2:], ".")
		return "map(" + key + ", " + value + ")"
	}
	return "tensor(" + short + ")"
}

// isRandom reports whether the results of an operator are no function of its operands.
func isRandom(domain, name string) bool {
	if domain != "" {
		return false
	}
	switch name {
	case "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli", "Multinomial":
		return true
	}
	return false
}
