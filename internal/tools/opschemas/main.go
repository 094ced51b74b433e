// Command opschemas writes the operator table of package graph, schemas.txt, from a JSON description of the ONNX
// operators: a list of objects with domain, name and versions, each version with since, inputs, outputs, attributes and
// types.
//
// Usage:
//
//	go -C internal/tools run ./opschemas operators.json > graph/schemas.txt
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
)

type operator struct {
	Domain   string    `json:"domain"`
	Name     string    `json:"name"`
	Versions []version `json:"versions"`
}

type version struct {
	Since      int                 `json:"since"`
	Deprecated bool                `json:"deprecated"`
	Inputs     []port              `json:"inputs"`
	Outputs    []port              `json:"outputs"`
	Attributes []attribute         `json:"attributes"`
	Types      map[string][]string `json:"types"`
}

type port struct{ Name, Type, Option string }

type attribute struct {
	Name     string          `json:"name"`
	Type     string          `json:"type"`
	Required bool            `json:"required"`
	Default  json.RawMessage `json:"default"`
}

// hetero names the operators whose variadic ports take values of different types, which the JSON leaves out; the value
// tells whether such an input may also be absent.
var hetero = map[string]bool{
	"If": false, "Loop": true, "Scan": false, "SequenceMap": true, "Gradient": false, "Adagrad": false, "Adam": false,
	"Momentum": false,
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: opschemas operators.json")
		os.Exit(2)
	}
	data, err := os.ReadFile(os.Args[1])
	if err == nil {
		var ops []operator
		if err = json.Unmarshal(data, &ops); err == nil {
			err = write(os.Stdout, ops)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "opschemas:", err)
		os.Exit(1)
	}
}

const header = `# The operators of ONNX: ports, attributes and types of every version. Written by internal/tools/opschemas.
# set N TYPES        a set of types; T is tensor(T), S.T seq(tensor(T)), O.T optional(tensor(T)), O.S.T and M.K.V alike
# op DOMAIN/NAME     an operator; its versions follow in ascending order
# v SINCE            a version; lines that it lacks are those of the version before
# in, out PORTS      NAME:TYPE, the name marked ? (may be absent), * (variadic), + (of different types)
# at ATTRS           NAME:KIND, with ! (required) or =DEFAULT
# ty VAR=SET         what the type variables admit
`

func write(w io.Writer, ops []operator) error {
	sets := map[string]int{}
	var sb, head strings.Builder
	for _, o := range ops {
		fmt.Fprintf(&sb, "op %s/%s\n", o.Domain, o.Name)
		last := [4]string{"in", "out", "at", "ty"}
		for _, v := range o.Versions {
			fmt.Fprintf(&sb, "v %d", v.Since)
			if v.Deprecated {
				sb.WriteString(" deprecated")
			}
			sb.WriteByte('\n')
			attrs, err := attrLine(v.Attributes)
			if err != nil {
				return fmt.Errorf("%s %d: %w", o.Name, v.Since, err)
			}
			lines := [4]string{portLine("in", o.Name, v.Inputs), portLine("out", o.Name, v.Outputs), attrs, ""}
			vars := make([]string, 0, len(v.Types))
			for name := range v.Types {
				vars = append(vars, name)
			}
			slices.Sort(vars)
			lines[3] = "ty"
			for _, name := range vars {
				set := setOf(v.Types[name])
				if _, ok := sets[set]; !ok {
					fmt.Fprintf(&head, "set %d %s\n", len(sets), set)
					sets[set] = len(sets)
				}
				lines[3] += fmt.Sprintf(" %s=%d", name, sets[set])
			}
			for i, line := range lines {
				if line != last[i] {
					sb.WriteString(line + "\n")
				}
			}
			last = lines
		}
	}
	_, err := io.WriteString(w, header+head.String()+sb.String())
	return err
}

func portLine(key, op string, ports []port) string {
	line := key
	for _, p := range ports {
		mark := ""
		switch p.Option {
		case "optional":
			mark = "?"
		case "variadic":
			mark = "*"
			if absent, ok := hetero[op]; ok {
				if absent && key == "in" {
					mark = "?*"
				}
				mark += "+"
			}
		}
		line += fmt.Sprintf(" %s%s:%s", p.Name, mark, p.Type)
	}
	return line
}

func attrLine(attrs []attribute) (string, error) {
	line := "at"
	for _, a := range attrs {
		line += " " + a.Name + ":" + a.Type
		switch {
		case a.Required:
			line += "!"
		case a.Default != nil:
			def, err := defaultOf(a)
			if err != nil {
				return "", fmt.Errorf("attribute %s: %w", a.Name, err)
			}
			line += "=" + def
		}
	}
	return line, nil
}

// defaultOf returns the default of an attribute without spaces.
func defaultOf(a attribute) (string, error) {
	switch a.Type {
	case "float":
		var f float64
		if err := json.Unmarshal(a.Default, &f); err != nil {
			return "", err
		}
		if strings.HasPrefix(string(a.Default), "-0") && f == 0 {
			f = math.Copysign(0, -1)
		}
		return strconv.FormatFloat(f, 'g', -1, 32), nil
	case "string":
		var s string
		if err := json.Unmarshal(a.Default, &s); err != nil {
			return "", err
		}
		if strings.ContainsAny(s, " \n\"") {
			return "", fmt.Errorf("default %q does not fit the format", s)
		}
		return s, nil
	case "int":
		return string(a.Default), nil
	case "ints", "strings":
		var l []any
		if err := json.Unmarshal(a.Default, &l); err != nil {
			return "", err
		}
		parts := make([]string, len(l))
		for i, x := range l {
			parts[i] = fmt.Sprint(x)
		}
		return strings.Join(parts, ","), nil
	}
	return "", fmt.Errorf("no default of kind %s is known", a.Type)
}

func setOf(types []string) string {
	parts := make([]string, len(types))
	for i, t := range types {
		t = strings.NewReplacer("tensor(", "", "seq(", "S.", "optional(", "O.", "map(", "M.", ", ", ".", ")", "").Replace(t)
		parts[i] = t
	}
	return strings.Join(parts, " ")
}
