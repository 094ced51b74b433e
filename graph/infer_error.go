package graph

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

// Causes of an InferError, for errors.Is.
var (
	ErrTypeMismatch  = errors.New("type mismatch")
	ErrShapeMismatch = errors.New("shape mismatch")
	ErrAttr          = errors.New("bad attribute")
	ErrArity         = errors.New("wrong number of inputs or outputs")
	ErrVersion       = errors.New("operator is newer than the operator set")
)

// InferError tells why a node does not satisfy its schema, or why the types of its results cannot be inferred. It wraps
// one of ErrTypeMismatch, ErrShapeMismatch, ErrAttr, ErrArity and ErrVersion.
type InferError struct {
	Op       Op
	Node     string // the node's label
	Port     string // `input 1 "B"`, `output 0 "Y"`, `attribute "axis"`, `region "body"`; "" for the node as a whole
	Value    string // the value at the port, "" where there is none
	Expected string
	Found    string
	Err      error // the cause
}

// Error returns `Conv "c1": input 1 "W" (w.0): shape mismatch: expected …, found …`.
func (e *InferError) Error() string {
	var sb strings.Builder
	fmt.Fprintf(&sb, "%v %q: ", e.Op, capped(e.Node))
	if e.Port != "" {
		sb.WriteString(e.Port)
		if e.Value != "" {
			sb.WriteString(" (" + plain(capped(e.Value)) + ")")
		}
		sb.WriteString(": ")
	}
	if e.Err != nil {
		sb.WriteString(e.Err.Error())
	}
	if e.Expected != "" {
		sb.WriteString(": expected " + plain(e.Expected))
	}
	if e.Found != "" {
		sb.WriteString(", found " + plain(capped(e.Found)))
	}
	return sb.String()
}

// Unwrap returns the cause.
func (e *InferError) Unwrap() error { return e.Err }

// plain quotes a name that would tear the line it is printed on.
func plain(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(s)
	}
	return s
}

// capped shortens what a model may make arbitrarily long.
func capped(s string) string {
	const limit = 200
	if len(s) > limit {
		s = s[:limit] + "…"
	}
	return s
}

func nodeError(n *Node, cause error, expected, found string) *InferError {
	return &InferError{Op: n.Op, Node: n.Name, Expected: expected, Found: found, Err: cause}
}

// portError is about input (or output) i of n.
func portError(n *Node, output bool, i int, cause error, expected, found string) *InferError {
	e := nodeError(n, cause, expected, found)
	word, v := "input", n.Input(i)
	var params []Param
	if n.Schema != nil {
		params = n.Schema.Inputs
	}
	if output {
		word, v = "output", n.Output(i)
		if n.Schema != nil {
			params = n.Schema.Outputs
		}
	}
	e.Port = fmt.Sprintf("%s %d", word, i)
	if p := formal(params, i); p != nil {
		e.Port += fmt.Sprintf(" %q", p.Name)
	}
	if v != nil {
		e.Value = v.String()
	}
	return e
}

func attrError(n *Node, name, expected, found string) *InferError {
	e := nodeError(n, ErrAttr, expected, found)
	e.Port = fmt.Sprintf("attribute %q", capped(name))
	return e
}

func (c *Inference) typeError(i int, expected string) error {
	return portError(c.Node, false, i, ErrTypeMismatch, expected, c.Type(i).String())
}

// shapeError is about the shape of input i.
func (c *Inference) shapeError(i int, expected string) error {
	return portError(c.Node, false, i, ErrShapeMismatch, expected, c.Type(i).String())
}

// valueError is about the elements of input i.
func (c *Inference) valueError(i int, expected, found string) error {
	return portError(c.Node, false, i, ErrShapeMismatch, expected, found)
}

func (c *Inference) attrError(name, expected string, found any) error {
	return attrError(c.Node, name, expected, fmt.Sprint(found))
}
