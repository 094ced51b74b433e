package gpukernel

import (
	"errors"
	"fmt"
)

// ErrUnsupported is wrapped by errors about shapes, types and attributes that no kernel of this package covers.
var ErrUnsupported = errors.New("no kernel")

func unsupported(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrUnsupported, fmt.Sprintf(format, args...))
}

// Type is how elements lie in memory, by the name that the dialect gives it.
type Type string

// The element types of the dialect. Bool is a byte, 0 or 1.
const (
	F32  Type = "f32"
	F16  Type = "f16"
	BF16 Type = "bf16"
	F64  Type = "f64"
	I8   Type = "i8"
	U8   Type = "u8"
	I16  Type = "i16"
	U16  Type = "u16"
	I32  Type = "i32"
	U32  Type = "u32"
	I64  Type = "i64"
	U64  Type = "u64"
	Bool Type = "bool"
)

// Size returns the bytes of an element.
func (t Type) Size() int {
	switch t {
	case F64, I64, U64:
		return 8
	case F32, I32, U32:
		return 4
	case F16, BF16, I16, U16:
		return 2
	}
	return 1
}

// storage returns the type that a pointer to elements points to.
func (t Type) storage() string {
	if t == Bool {
		return "u8"
	}
	return string(t)
}

func (t Type) isFloat() bool { return t == F32 || t == F16 || t == BF16 || t == F64 }
func (t Type) isHalf() bool  { return t == F16 || t == BF16 }

// Param is a parameter of a kernel: a pointer to elements of a type, or an integer.
type Param struct {
	Name    string
	Type    Type
	Scalar  bool // an i32 or i64 instead of a pointer
	Written bool
}

// Define is a macro that holds while a kernel is compiled.
type Define struct {
	Name, Value string
}

// Kernel is one entry point in the dialect. It is immutable once made.
type Kernel struct {
	Name    string
	Params  []Param
	Defines []Define
	Files   []string // of the embedded sources, in front of the entry point
	Support string   // text in front of the entry point, behind Files
	Body    string   // the block of the function
	Threads int      // work items of a group, in one dimension
	Blocks  int      // groups that shall fit on a processor together; 0: any number
	Arena   int      // bytes of local memory of a group
	Waits   bool     // items of a group wait for each other
	Double  bool     // needs double precision
}

// Arg is what a launch passes for a parameter: a buffer by the name that its plan gives it, or an integer.
type Arg struct {
	Buffer string
	Value  int64
	Data   []uint64 // of a program for the interpreter, which is passed by value
}

// Launch is a kernel with a grid of groups and arguments, one per parameter.
type Launch struct {
	Kernel *Kernel
	Grid   [3]int
	Args   []Arg
}

// Plan is what computes one operation: launches in order, and buffers between them.
type Plan struct {
	Launches []Launch
	Scratch  []Scratch
}

// Scratch is a buffer that a plan's launches write before they read it, and that is free between runs.
type Scratch struct {
	Buffer string
	Bytes  int64
}

func buffer(name string) Arg { return Arg{Buffer: name} }
func value(v int) Arg        { return Arg{Value: int64(v)} }

func def(name string, v any) Define { return Define{name, fmt.Sprint(v)} }

func flag(b bool) int {
	if b {
		return 1
	}
	return 0
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }
