package mxnet

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/carve-dev/carve/graph/tensor"
)

// none stands for the entry None of a list of numbers.
const none = math.MinInt64

// value returns the text of an attribute, and notes that it was read. None, and an attribute that is not there, are "".
func (o *op) value(key string) string {
	o.read = append(o.read, key)
	v, _ := o.n.Attr(key)
	if v = strings.TrimSpace(v); v == "None" {
		return ""
	}
	return v
}

// ignore marks attributes that say nothing about results in inference.
func (o *op) ignore(keys ...string) { o.read = append(o.read, keys...) }

// unread returns the first attribute that the operator does not have. Those with underscores around them are everybody's.
func (o *op) unread() (string, bool) {
	for _, p := range o.n.Attrs {
		if !slices.Contains(o.read, p.Key) && !strings.HasPrefix(p.Key, "__") {
			return p.Key, true
		}
	}
	return "", false
}

func (o *op) badAttr(key, want, got string) {
	o.fail(ErrAttribute, "%s: %s is expected, found %.80q", key, want, got)
}

// text returns one of the values that an attribute may have; def where it is not there.
func (o *op) text(key, def string, admitted ...string) string {
	v := o.value(key)
	if v == "" {
		v = def
	}
	if !slices.Contains(admitted, v) {
		o.badAttr(key, "one of "+strings.Join(admitted, ", "), v)
	}
	return v
}

// flag returns a truth value, which MXNet writes in several ways.
func (o *op) flag(key string, def bool) bool {
	switch v := o.value(key); v {
	case "":
		return def
	case "True", "true", "1":
		return true
	case "False", "false", "0":
		return false
	default:
		o.badAttr(key, "True or False", v)
	}
	return false
}

// integer returns a whole number of 32 bits.
func (o *op) integer(key string, def int) int {
	n, ok := o.optional(key)
	if !ok {
		return def
	}
	return n
}

// required is integer for an attribute without a default.
func (o *op) required(key string) int {
	n, ok := o.optional(key)
	if !ok {
		o.fail(ErrAttribute, "%s is missing", key)
	}
	return n
}

// optional is integer where None, or nothing, is a value of its own.
func (o *op) optional(key string) (n int, ok bool) {
	v := o.value(key)
	if v == "" {
		return 0, false
	}
	x, ok := parseInt(v)
	if !ok {
		o.badAttr(key, "a whole number", v)
	}
	return int(x), true
}

// number returns a number.
func (o *op) number(key string, def float64) float64 {
	v := o.value(key)
	if v == "" {
		return def
	}
	x, err := strconv.ParseFloat(v, 64)
	if err != nil {
		switch v {
		case "True", "true":
			return 1
		case "False", "false":
			return 0
		}
		o.badAttr(key, "a number", v)
	}
	return x
}

// requiredNumber is number for an attribute without a default.
func (o *op) requiredNumber(key string) float64 {
	if v, ok := o.n.Attr(key); !ok || v == "None" {
		o.fail(ErrAttribute, "%s is missing", key)
	}
	return o.number(key, 0)
}

// parseInt reads a whole number as Python 2 and 3 write it, also as a float without a fraction.
func parseInt(s string) (int64, bool) {
	s = strings.TrimSuffix(strings.TrimSpace(s), "L")
	if n, err := strconv.ParseInt(s, 10, 32); err == nil {
		return n, true
	}
	if f, err := strconv.ParseFloat(s, 64); err == nil && f == math.Trunc(f) && math.Abs(f) < 1<<31 {
		return int64(f), true
	}
	return 0, false
}

// maxTuple bounds the length of a list in an attribute.
const maxTuple = 1 << 12

// fields splits "(1, 2)", "[1, 2]", "(1,)" and "1" at the commas; ok is false where the attribute is not there.
func (o *op) fields(key string) (out []string, ok bool) {
	v := o.value(key)
	if v == "" {
		return nil, false
	}
	body := v
	switch {
	case strings.HasPrefix(v, "(") && strings.HasSuffix(v, ")"), strings.HasPrefix(v, "[") && strings.HasSuffix(v, "]"):
		body = strings.TrimSpace(v[1 : len(v)-1])
	}
	if body == "" {
		return []string{}, true
	}
	body = strings.TrimSuffix(body, ",")
	if strings.Count(body, ",") >= maxTuple {
		o.badAttr(key, "a shorter list", v)
	}
	for f := range strings.SplitSeq(body, ",") {
		out = append(out, strings.TrimSpace(f))
	}
	return out, true
}

// list returns a list of whole numbers, none for None among them; ok is false where the attribute is not there.
func (o *op) list(key string) (out []int, ok bool) {
	fields, ok := o.fields(key)
	if !ok {
		return nil, false
	}
	out = []int{}
	for _, f := range fields {
		if f == "None" {
			out = append(out, none)
			continue
		}
		n, ok := parseInt(f)
		if !ok {
			o.badAttr(key, "a list of whole numbers", strings.Join(fields, ","))
		}
		out = append(out, int(n))
	}
	return out, true
}

// tuple returns a list of n numbers of at least lo, all def where the attribute is not there or empty.
func (o *op) tuple(key string, n, def, lo int) []int {
	out, _ := o.list(key)
	if len(out) == 0 {
		return slices.Repeat([]int{def}, n)
	}
	if len(out) != n {
		o.fail(ErrAttribute, "%s: %d numbers are expected, found %d", key, n, len(out))
	}
	for _, x := range out {
		if x < lo {
			o.fail(ErrAttribute, "%s: numbers of at least %d are expected, found %d", key, lo, x)
		}
	}
	return out
}

// numbers returns a list of numbers, def where the attribute is not there.
func (o *op) numbers(key string, def ...float64) []float64 {
	fields, ok := o.fields(key)
	if !ok {
		return def
	}
	out := make([]float64, len(fields))
	for i, f := range fields {
		x, err := strconv.ParseFloat(f, 64)
		if err != nil {
			o.badAttr(key, "a list of numbers", strings.Join(fields, ","))
		}
		out[i] = x
	}
	return out
}

// dtype returns the element type of a name such as float16.
func (o *op) dtype(key string, def tensor.DType) tensor.DType {
	v := o.value(key)
	if v == "" {
		return def
	}
	for _, dt := range dtypes {
		if dt.Name() == v {
			return dt
		}
	}
	if n, ok := parseInt(v); ok {
		if dt, ok := typeOf(n); ok {
			return dt
		}
	}
	o.badAttr(key, "an element type", v)
	return tensor.Invalid
}

// fault is how functions that translate an operator end early; translate turns it into an error.
type fault struct{ err error }

// fail ends the translation of the operator.
func (o *op) fail(cause error, format string, args ...any) {
	panic(fault{fmt.Errorf("%w: "+format, append([]any{cause}, args...)...)})
}

// require fails for operands or attributes that the operator does not admit.
func (o *op) require(ok bool, format string, args ...any) {
	if !ok {
		o.fail(ErrInputs, format, args...)
	}
}
