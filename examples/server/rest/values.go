package rest

import (
	"encoding/json"
	"errors"
	"strconv"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"github.com/carve-dev/carve/examples/server/oip"
)

// errText is the error of JSON in another form than UTF-8, whose strings would be changed by reading them.
var errText = errors.New("it is no UTF-8")

// parse returns the value that a text is, which is copied; the error says what is wrong with it.
func parse(text []byte) (gjson.Result, error) {
	if !utf8.Valid(text) {
		return gjson.Result{}, errText
	}
	if json.Valid(text) {
		return gjson.ParseBytes(text), nil
	}
	var none any
	return gjson.Result{}, json.Unmarshal(text, &none)
}

// members calls member for each member of an object, in their order. What null stands for has none.
func members(v gjson.Result, what string, member func(name string, v gjson.Result) error) (err error) {
	if v.Type != gjson.Null && !v.IsObject() {
		return mismatch(what, "object")
	}
	v.ForEach(func(name, v gjson.Result) bool {
		err = member(name.Str, v)
		return err == nil
	})
	return err
}

// elements calls element for each element of an array. What null stands for has none.
func elements(v gjson.Result, what string, element func(v gjson.Result) error) (err error) {
	if v.Type != gjson.Null && !v.IsArray() {
		return mismatch(what, "array")
	}
	v.ForEach(func(_, v gjson.Result) bool {
		err = element(v)
		return err == nil
	})
	return err
}

// str returns a string; null is "".
func str(v gjson.Result, what string) (string, error) {
	if v.Type != gjson.Null && v.Type != gjson.String {
		return "", mismatch(what, "string")
	}
	return v.Str, nil
}

// dims returns a shape; null is nil.
func dims(v gjson.Result, what string) (shape []int64, err error) {
	if v.Type == gjson.Null {
		return nil, nil
	}
	shape = make([]int64, 0, 4)
	err = elements(v, what, func(v gjson.Result) error {
		n, err := strconv.ParseInt(v.Raw, 10, 64)
		if len(shape) > oip.MaxDims { // one more is found to be too many
			return err
		}
		if shape = append(shape, n); err != nil {
			return mismatch(what, "array of whole numbers")
		}
		return nil
	})
	return shape, err
}

// parameter returns a parameter's value: bool, string, int64, uint64 or float64.
func parameter(v gjson.Result) (any, error) {
	switch v.Type {
	case gjson.String:
		return v.Str, nil
	case gjson.True, gjson.False:
		return v.Type == gjson.True, nil
	case gjson.Null, gjson.JSON:
		return nil, oip.Errorf(oip.InvalidArgument, "a parameter is neither string, number nor bool")
	case gjson.Number:
	}
	if n, err := strconv.ParseInt(v.Raw, 10, 64); err == nil {
		return n, nil
	}
	if n, err := strconv.ParseUint(v.Raw, 10, 64); err == nil {
		return n, nil
	}
	f, err := strconv.ParseFloat(v.Raw, 64)
	if err != nil {
		return nil, oip.Errorf(oip.InvalidArgument, "a parameter is %.40s, which is too large", v.Raw)
	}
	return f, nil
}

// mismatch is an error of a value of another kind than is wanted.
func mismatch(what, kind string) error {
	return oip.Errorf(oip.InvalidArgument, "failed to parse the request JSON: %s is no %s", what, kind)
}
