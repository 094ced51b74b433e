package asm

// machine is what Func itself has to know of an architecture's assembly: the rest is written by bodies.
type machine interface {
	// load returns the instruction that loads an argument of a type into a general register, extended to 64 bits.
	load(typ string) string
	// countDown takes one from a register and jumps where it is not zero then.
	countDown(fn *Func, reg, label string)
	// subtract takes n from a register and jumps where it is at least zero then (or where it is below).
	subtract(fn *Func, n int, reg string, atLeast bool, label string)
	// add adds n to a register.
	add(fn *Func, n int, reg string)
}

// machines are the architectures that assembly is written for, by GOARCH.
var machines = map[string]machine{"amd64": amd64{}, "arm64": arm64{}}

// loads maps argument types to instructions; others are of 64 bits.
type loads map[string]string

func (l loads) of(typ, whole string) string {
	if op, ok := l[typ]; ok {
		return op
	}
	return whole
}

type amd64 struct{}

func (amd64) load(typ string) string {
	return loads{"int32": "MOVLQSX", "uint32": "MOVL", "int16": "MOVWQSX", "uint16": "MOVWQZX", "int8": "MOVBQSX", "uint8": "MOVBQZX",
		"bool": "MOVBQZX"}.of(typ, "MOVQ")
}

func (amd64) countDown(fn *Func, reg, label string) {
	fn.I("DECQ %s", reg)
	fn.I("JNZ %s", label)
}

func (amd64) subtract(fn *Func, n int, reg string, atLeast bool, label string) {
	fn.I("SUBQ $%d, %s", n, reg)
	fn.I("%s %s", map[bool]string{true: "JGE", false: "JLT"}[atLeast], label)
}

func (amd64) add(fn *Func, n int, reg string) { fn.I("ADDQ $%d, %s", n, reg) }

type arm64 struct{}

func (arm64) load(typ string) string {
	return loads{"int32": "MOVW", "uint32": "MOVWU", "int16": "MOVH", "uint16": "MOVHU", "int8": "MOVB", "uint8": "MOVBU",
		"bool": "MOVBU"}.of(typ, "MOVD")
}

func (arm64) countDown(fn *Func, reg, label string) {
	fn.I("SUBS $1, %s, %s", reg, reg)
	fn.I("BNE %s", label)
}

func (arm64) subtract(fn *Func, n int, reg string, atLeast bool, label string) {
	fn.I("SUBS $%d, %s, %s", n, reg, reg)
	fn.I("%s %s", map[bool]string{true: "BGE", false: "BLT"}[atLeast], label)
}

func (arm64) add(fn *Func, n int, reg string) { fn.I("ADD $%d, %s, %s", n, reg, reg) }
