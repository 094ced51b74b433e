package onnx

import (
	"fmt"

	"github.com/carve-dev/carve/graph"
)

// maxCalls bounds how deep functions call one another.
const maxCalls = 128

// given returns what an attribute of a node in s stands for: itself, or what the caller gave to the function under the
// name that it refers to. ok is false where the caller gave nothing and there is no default: the attribute is absent.
func (s *scope) given(a *attrProto) (b binding, ok bool) {
	if a.ref == "" {
		return binding{a, s}, true
	}
	b, ok = s.attrs[a.ref]
	return b, ok
}

// inline builds the body of a function in place of a node that calls it. in are the node's inputs.
func (l *loader) inline(s *scope, n *nodeProto, label string, fn *functionProto, in []*graph.Value) error {
	depth := 1
	for c := s.call; c != nil; c = c.parent {
		if c.fn == fn {
			return fmt.Errorf("%w: %s", ErrRecursion, short(fn.key.String()))
		}
		depth++
	}
	if depth > maxCalls {
		return fmt.Errorf("%w: calls of functions, more than %d", ErrDepth, maxCalls)
	}
	if len(n.in()) > len(fn.inputs) || len(n.out()) > len(fn.outputs) {
		return fmt.Errorf("%w: %d inputs and %d outputs for function %s, which has %d and %d", ErrSyntax,
			len(n.in()), len(n.out()), short(fn.key.String()), len(fn.inputs), len(fn.outputs))
	}
	versions := fn.opsets
	if versions == nil {
		versions = s.opsets
	}
	if v := versions.versions[""]; v > newestOpset {
		return fmt.Errorf("%w: version %d of the default domain in function %s", ErrUnsupportedOpset, v, short(fn.key.String()))
	}
	if l.labels -= len(label); l.labels < 0 {
		return errLabels
	}
	body := &scope{frame: s.frame, body: &fn.body, opsets: versions, label: label + "/",
		prefix: label + "/", rename: map[int32]string{}, attrs: map[string]binding{}, call: &call{s.call, fn, depth},
		dims: l.newDims(true)}
	if err := l.charge(body, 1+(len(fn.names)+len(fn.defaults))/16); err != nil {
		return err
	}
	body.values = make([]*graph.Value, len(fn.names))
	for i, name := range fn.inputs {
		var v *graph.Value
		if i < len(in) {
			v = in[i]
		}
		if err := body.define(name, v); err != nil {
			return at(err, label, body.text(name))
		}
	}
	l.bindAttrs(s, n, fn, body)
	if err := l.bindResults(s, n, fn, body); err != nil {
		return err
	}
	if err := l.buildNodes(body, fn.nodes); err != nil {
		return err
	}
	for i, name := range n.out() {
		if name == 0 {
			continue
		}
		v, err := body.resolve(fn.outputs[i])
		if err == nil && v == nil {
			err = ErrDangling
		}
		if err != nil {
			return at(err, label, body.text(fn.outputs[i]))
		}
		if typ := s.body.typeOf(name); typ != nil && v.Type.Kind == graph.KindUnknown {
			if v.Type, err = l.typ(typ, s.dims, 0); err != nil {
				return at(err, label, s.text(name))
			}
		}
		s.values[name] = v
	}
	return nil
}

// bindAttrs gives the attributes of a call to the function's parameters, and defaults to the rest.
func (l *loader) bindAttrs(s *scope, n *nodeProto, fn *functionProto, body *scope) {
	for _, d := range fn.defaults {
		body.attrs[d.name] = binding{d, body}
	}
	for _, a := range n.attrs {
		if b, ok := s.given(a); ok {
			body.attrs[a.name] = b
		}
	}
}

// bindResults settles what the results of a function are called: as the caller calls them.
func (l *loader) bindResults(s *scope, n *nodeProto, fn *functionProto, body *scope) error {
	for i, name := range n.out() {
		if name == 0 {
			continue
		}
		if _, ok := body.rename[fn.outputs[i]]; ok {
			continue // one result under two names: the first
		}
		outer, err := l.valueName(s, name)
		if err != nil {
			return err
		}
		body.rename[fn.outputs[i]] = outer
	}
	return nil
}
