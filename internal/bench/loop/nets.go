package main

import (
	"fmt"
	"math"
	"strings"

	"github.com/carve-dev/carve/graph/tensor"
)

// net is a model with a loop, and what goes into it.
type net struct {
	name, text string
	feeds      map[string]*tensor.Tensor
}

// nets are the models that are measured: of so many iterations.
func nets(trips int) []net {
	m := tensor.From([]int64{int64(trips)}, []int{}...)
	return []net{
		{"convolution in a Loop", loop(64, 14, `      %a = Conv(%v, %w, %b; pads=[1, 1, 1, 1]) "conv"
      %next = Relu(%a) "relu"`), map[string]*tensor.Tensor{"x": wave(1, 64, 14, 14), "m": m}},
		{"small convolution in a Loop", loop(16, 8, `      %a = Conv(%v, %w, %b; pads=[1, 1, 1, 1]) "conv"
      %next = Relu(%a) "relu"`), map[string]*tensor.Tensor{"x": wave(1, 16, 8, 8), "m": m}},
		{"recurrent layer as a Scan", recurrent(64), map[string]*tensor.Tensor{"x": wave(trips, 1, 64), "h": wave(1, 64)}},
		{"If in a Loop", branching(32, 14, trips/2), map[string]*tensor.Tensor{"x": wave(1, 32, 14, 14), "m": m}},
	}
}

// wave returns a tensor of varied values.
func wave(shape ...int) *tensor.Tensor {
	n := 1
	for _, d := range shape {
		n *= d
	}
	data := make([]float32, n)
	for i := range data {
		data[i] = float32(math.Sin(float64(i)*0.7 + 0.3))
	}
	return tensor.From(data, shape...)
}

// constant writes a constant of varied values as text, whose sums over fan products stay small.
func constant(name string, fan int, shape ...int) string {
	n := 1
	for _, d := range shape {
		n *= d
	}
	vals := make([]string, n)
	for i := range vals {
		vals[i] = fmt.Sprintf("%g", float32(math.Cos(float64(i)*0.9)/math.Sqrt(float64(fan))))
	}
	return fmt.Sprintf("const %%%s = f32[%s]{%s}", name, strings.Trim(strings.ReplaceAll(fmt.Sprint(shape), " ", ","), "[]"), strings.Join(vals, ", "))
}

// loop is a loop around a convolution of images [1, c, size, size], whose weights it captures.
func loop(c, size int, body string) string {
	image := fmt.Sprintf("f32[1,%d,%d,%d]", c, size, size)
	return fmt.Sprintf(`graph "main" {
  opset 17
  input %%x: %[1]s
  input %%m: i64[]
  const %%c = bool[]{true}
  %[2]s
  %[3]s
  %%y = Loop(%%m, %%c, %%x | %%w, %%b) "loop" {
    body: graph "body" {
      input %%i: i64[]
      input %%k: bool[]
      input %%v: %[1]s
      capture %%w: f32[%[4]d,%[4]d,3,3]
      capture %%b: f32[%[4]d]
%[5]s
      %%l = Identity(%%k)
      output %%l, %%next
    }
  }
  output %%y
}`, image, constant("w", 9*c, c, c, 3, 3), constant("b", c, c), c, body)
}

// recurrent is a recurrent layer of n units, whose state is what it gives for each step.
func recurrent(n int) string {
	return fmt.Sprintf(`graph "main" {
  opset 17
  input %%x: f32[T,1,%[1]d]
  input %%h: f32[1,%[1]d]
  %[2]s
  %[3]s
  %%last, %%all = Scan(%%h, %%x | %%w, %%r; num_scan_inputs=1) "scan" {
    body: graph "body" {
      input %%s: f32[1,%[1]d]
      input %%e: f32[1,%[1]d]
      capture %%w: f32[%[1]d,%[1]d]
      capture %%r: f32[%[1]d,%[1]d]
      %%a = MatMul(%%e, %%w) "input"
      %%b = MatMul(%%s, %%r) "state"
      %%sum = Add(%%a, %%b) "sum"
      %%next = Tanh(%%sum) "tanh"
      %%out = Identity(%%next) "out"
      output %%next, %%out
    }
  }
  output %%last, %%all
}`, n, constant("w", n, n, n), constant("r", n, n, n))
}

// branching is a loop around an If, which convolves with other weights from iteration half on.
func branching(c, size, half int) string {
	image, weights := fmt.Sprintf("f32[1,%d,%d,%d]", c, size, size), fmt.Sprintf("f32[%d,%d,3,3]", c, c)
	captures := fmt.Sprintf("capture %%v: %s\n          capture %%w: %s\n          capture %%u: %s", image, weights, weights)
	return fmt.Sprintf(`graph "main" {
  opset 17
  input %%x: %[1]s
  input %%m: i64[]
  const %%c = bool[]{true}
  const %%half = i64[]{%[6]d}
  %[2]s
  %[3]s
  %%y = Loop(%%m, %%c, %%x | %%w, %%u, %%half) "loop" {
    body: graph "body" {
      input %%i: i64[]
      input %%k: bool[]
      input %%v: %[1]s
      capture %%w: %[4]s
      capture %%u: %[4]s
      capture %%half: i64[]
      %%early = Less(%%i, %%half) "early"
      %%next = If(%%early | %%v, %%w, %%u) "if" {
        then_branch: graph "then" {
          %[5]s
          %%a = Conv(%%v, %%w; pads=[1, 1, 1, 1]) "conv1"
          %%t = Relu(%%a) "relu1"
          output %%t
        }
        else_branch: graph "else" {
          %[5]s
          %%a2 = Conv(%%v, %%u; pads=[1, 1, 1, 1]) "conv2"
          %%t2 = Relu(%%a2) "relu2"
          output %%t2
        }
      }
      %%l = Identity(%%k)
      output %%l, %%next
    }
  }
  output %%y
}`, image, constant("w", 9*c, c, c, 3, 3), constant("u", 9*c, c, c, 3, 3), weights, captures, half)
}
