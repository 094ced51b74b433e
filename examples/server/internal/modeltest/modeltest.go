// Package modeltest writes small models into folders, for specs and measurements.
package modeltest

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/onnx"
)

// Datatypes are the protocol's datatypes with the element types of graphs' text form.
var Datatypes = map[string]string{
	"BOOL": "bool", "UINT8": "u8", "UINT16": "u16", "UINT32": "u32", "UINT64": "u64", "INT8": "i8", "INT16": "i16", "INT32": "i32",
	"INT64": "i64", "FP16": "f16", "BF16": "bf16", "FP32": "f32", "FP64": "f64", "BYTES": "str",
}

// Echo returns the text of a graph whose output y is its input x, of shape [N, 3].
func Echo(dtype string) string {
	return fmt.Sprintf("graph \"echo\" {\n  opset 17\n  input %%x: %s[N,3]\n  %%y: %s[N,3] = Identity(%%x)\n  output %%y\n}", dtype, dtype)
}

// Total is a graph that adds its input x to a state; y is the sum, and the state's next value.
const Total = `graph "total" {
  opset 17
  input %x: f32[N]
  input %sum: f32[N]
  %next: f32[N] = Add(%x, %sum)
  %y: f32[N] = Identity(%next)
  output %y, %next
}`

// TotalConfig says that the state is the sequence's.
const TotalConfig = `
sequence_batching {
  max_sequence_idle_microseconds: 5000000
  state [ { input_name: "sum" output_name: "next" data_type: TYPE_FP32 dims: [ 1 ] } ]
}`

// Encode returns a graph's text as an ONNX file.
func Encode(text string) ([]byte, error) {
	g, err := graph.Parse(text)
	if err != nil {
		return nil, err
	}
	var outputs []string
	for _, v := range g.Outputs {
		outputs = append(outputs, v.Name)
	}
	var b bytes.Buffer
	err = onnx.Write(context.Background(), &b, nil, &onnx.Model{Graph: g, IRVersion: 10, Opsets: g.Opsets, Producer: "carve", Outputs: outputs}, nil)
	return b.Bytes(), err
}

// Write puts a version of a model into a repository.
func Write(root, name string, version int, text string) error {
	b, err := Encode(text)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	dir := filepath.Join(root, name, fmt.Sprint(version))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "model.onnx"), b, 0o600)
}

// Configure puts a configuration beside a model's versions.
func Configure(root, name, text string) error {
	if err := os.MkdirAll(filepath.Join(root, name), 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(root, name, "config.pbtxt"), []byte(text), 0o600)
}

// All fills a folder with a model of each datatype, a sequence's, and the file of another, digits.
func All(root, digits string) error {
	for datatype, dtype := range Datatypes {
		if err := Write(root, "echo_"+strings.ToLower(datatype), 1, Echo(dtype)); err != nil {
			return err
		}
	}
	if err := Write(root, "total", 1, Total); err != nil {
		return err
	}
	if err := Configure(root, "total", TotalConfig); err != nil {
		return err
	}
	b, err := os.ReadFile(digits)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(root, "digits.onnx"), b, 0o600)
}
