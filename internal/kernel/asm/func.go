package asm

import (
	"bytes"
	"fmt"
	"strings"
)

// Arg is a parameter or result of an assembly function: its name and its Go type.
type Arg struct{ Name, Type string }

// Ptr is a parameter of type *float32.
func Ptr(name string) Arg { return Arg{name, "*float32"} }

// Int is a parameter of type int.
func Int(name string) Arg { return Arg{name, "int"} }

// Float is a parameter of type float32.
func Float(name string) Arg { return Arg{name, "float32"} }

// Typed is a parameter of another type; size tells which are known.
func Typed(name, typ string) Arg { return Arg{name, typ} }

// size returns size and alignment in bytes on a 64-bit machine.
func (a Arg) size() (size, align int) {
	switch {
	case strings.HasPrefix(a.Type, "*"), a.Type == "int", a.Type == "uint", a.Type == "uintptr", a.Type == "int64",
		a.Type == "uint64", a.Type == "float64", a.Type == "unsafe.Pointer":
		return 8, 8
	case a.Type == "float32", a.Type == "int32", a.Type == "uint32":
		return 4, 4
	case a.Type == "int16", a.Type == "uint16":
		return 2, 2
	case a.Type == "int8", a.Type == "uint8", a.Type == "bool":
		return 1, 1
	case strings.HasPrefix(a.Type, "[]"):
		return 24, 8
	case a.Type == "string":
		return 16, 8
	}
	panic("asm: no size known for type " + a.Type)
}

// Func is one assembly function being written: NOSPLIT, a leaf, with its arguments on the stack (ABI0). Its methods
// append text in call order.
type Func struct {
	machine   machine
	name, doc string
	args      []Arg
	results   []Arg
	frame     int
	body      bytes.Buffer
	labels    map[string]bool
	serial    int
	upper     bool
}

// Func starts a function. doc is its doc comment: whole sentences, without slashes, starting with the name; lines are
// kept. Every pointer passed to it is treated as not escaping.
func (f *File) Func(name, doc string, args ...Arg) *Func {
	if f.names[name] {
		panic("asm: function " + name + " defined twice")
	}
	f.names[name] = true
	fn := &Func{machine: machines[f.arch], name: name, doc: doc, args: args, labels: map[string]bool{}}
	f.funcs = append(f.funcs, fn)
	return fn
}

// Result declares a result; call it before the first use of its name.
func (fn *Func) Result(name, typ string) { fn.results = append(fn.results, Arg{name, typ}) }

// Frame reserves n bytes of stack, addressed as `name-8(SP)` and so on by the caller.
func (fn *Func) Frame(n int) { fn.frame = n }

// layout returns the offset of every argument and result and their size together.
func (fn *Func) layout() (offsets map[string]int, total int) {
	offsets = map[string]int{}
	off := 0
	place := func(as []Arg) {
		for _, a := range as {
			size, align := a.size()
			off = (off + align - 1) &^ (align - 1)
			if _, dup := offsets[a.Name]; dup {
				panic("asm: " + fn.name + ": two arguments called " + a.Name)
			}
			offsets[a.Name] = off
			off += size
		}
	}
	place(fn.args)
	if len(fn.results) > 0 {
		off = (off + 7) &^ 7
		place(fn.results)
	}
	return offsets, off
}

// Addr returns the operand of an argument or result, such as `n+8(FP)`. The parts of a slice are called `x_base`, `x_len`
// and `x_cap`, as go vet wants them.
func (fn *Func) Addr(name string) string {
	offsets, _ := fn.layout()
	if off, ok := offsets[name]; ok {
		return fmt.Sprintf("%s+%d(FP)", name, off)
	}
	for i, part := range []string{"_base", "_len", "_cap"} {
		if base, ok := strings.CutSuffix(name, part); ok {
			if off, ok := offsets[base]; ok {
				return fmt.Sprintf("%s+%d(FP)", name, off+8*i)
			}
		}
	}
	panic("asm: " + fn.name + " has no argument " + name)
}

// Load emits the move of an integer or pointer argument to a general register, sign- or zero-extended to 64 bits. Float
// arguments are used as memory operands (Addr) of the instruction that wants them, VBROADCASTSS for example.
func (fn *Func) Load(name, reg string) {
	typ := "int"
	for _, a := range fn.args {
		if a.Name == name {
			typ = a.Type
		}
	}
	fn.I("%s %s, %s", fn.machine.load(typ), fn.Addr(name), reg)
}

// I emits one instruction, formatted as by fmt.Sprintf.
func (fn *Func) I(format string, args ...any) {
	line := format
	if len(args) > 0 {
		line = fmt.Sprintf(format, args...)
	}
	if !fn.upper && usesWide(line) {
		fn.upper = true
	}
	fmt.Fprintf(&fn.body, "\t%s\n", line)
}

// usesWide reports whether a line names a 256- or 512-bit register, so that Ret must clear the upper halves.
func usesWide(line string) bool {
	for i := 0; i+1 < len(line); i++ {
		if (line[i] == 'Y' || line[i] == 'Z') && line[i+1] >= '0' && line[i+1] <= '9' &&
			(i == 0 || line[i-1] == ' ' || line[i-1] == ',') {
			return true
		}
	}
	return false
}

// C emits a comment line.
func (fn *Func) C(format string, args ...any) {
	fmt.Fprintf(&fn.body, "\n\t// %s\n", fmt.Sprintf(format, args...))
}

// Label defines a label at this place.
func (fn *Func) Label(name string) {
	if fn.labels[name] {
		panic("asm: " + fn.name + ": label " + name + " defined twice")
	}
	fn.labels[name] = true
	fmt.Fprintf(&fn.body, "\n%s:\n", name)
}

// NewLabel returns a name, starting with prefix, that no label of this function has.
func (fn *Func) NewLabel(prefix string) string {
	for {
		fn.serial++
		name := fmt.Sprintf("%s%d", prefix, fn.serial)
		if !fn.labels[name] {
			return name
		}
	}
}

// Loop emits body repeated as often as register count says, counting it down to zero. The count must be above zero
// at entry.
func (fn *Func) Loop(count string, body func()) {
	top := fn.NewLabel("loop")
	fn.Label(top)
	body()
	fn.machine.countDown(fn, count, top)
}

// While emits body repeated as long as register count is at least step, subtracting step each time: zero times where
// it is less at entry. What is left in count is below step (signed).
func (fn *Func) While(count string, step int, body func()) {
	top, end := fn.NewLabel("loop"), fn.NewLabel("done")
	fn.machine.subtract(fn, step, count, false, end)
	fn.Label(top)
	body()
	fn.machine.subtract(fn, step, count, true, top)
	fn.Label(end)
	fn.machine.add(fn, step, count)
}

// Bytes emits an instruction that the assembler does not know, byte by byte.
func (fn *Func) Bytes(bs ...byte) {
	for i := 0; i < len(bs); i += 8 {
		var parts []string
		for _, b := range bs[i:min(i+8, len(bs))] {
			parts = append(parts, fmt.Sprintf("BYTE $0x%02x", b))
		}
		fmt.Fprintf(&fn.body, "\t%s\n", strings.Join(parts, "; "))
	}
}

// Words emits instructions of a fixed-width architecture that the assembler does not know.
func (fn *Func) Words(ws ...uint32) {
	for _, w := range ws {
		fmt.Fprintf(&fn.body, "\tWORD $0x%08x\n", w)
	}
}

// Ret emits the return, preceded by VZEROUPPER where the function has used a wide register so far.
func (fn *Func) Ret() {
	if fn.upper {
		fn.body.WriteString("\tVZEROUPPER\n")
	}
	fn.body.WriteString("\tRET\n")
}

func (fn *Func) signature() string {
	list := func(as []Arg) string {
		var parts []string
		for _, a := range as {
			parts = append(parts, a.Name+" "+a.Type)
		}
		return strings.Join(parts, ", ")
	}
	s := fmt.Sprintf("func %s(%s)", fn.name, list(fn.args))
	if len(fn.results) > 0 {
		s += " (" + list(fn.results) + ")"
	}
	return s
}

func (fn *Func) write(b *bytes.Buffer) {
	_, total := fn.layout()
	fmt.Fprintf(b, "// %s\nTEXT ·%s(SB), NOSPLIT, $%d-%d\n", fn.signature(), fn.name, fn.frame, total)
	b.Write(fn.body.Bytes())
}

func (fn *Func) declare(b *bytes.Buffer) {
	for _, line := range strings.Split(fn.doc, "\n") {
		fmt.Fprintf(b, "// %s\n", line)
	}
	fmt.Fprintf(b, "//\n//go:noescape\n%s\n", fn.signature())
}
