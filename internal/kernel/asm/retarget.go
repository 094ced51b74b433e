package asm

import (
	"fmt"
	"strconv"
	"strings"
)

// Retarget writes instructions of AVX2 as instructions of NEON that do the same to each lane of a vector of four, or of two of float64, so
// that a generator has one body for both. It knows the instructions that generators here use, and panics at others. What differs:
//
//   - Of two numbers of which one is NaN, VMAXPS, VMINPS, VMAXPD and VMINPD give NaN, where AVX2 gives the second source (the first operand).
//   - VBLENDVPS takes each bit by a mask's, so that lanes of masks have all bits or none, and its last two operands are one register.
//   - VCMPPS $3 and VCMPPD $3 (unordered) compare a register with itself.
//   - The name of a vector register is NEON's, V or, of its lowest lane, X; those of general registers are amd64's.
//
// Operands in memory pass through a register, and some instructions need another one, which bodies must not use.
type Retarget struct {
	fn              *Func
	memory, scratch int // vector registers
}

// OnNEON returns a Retarget that writes to a function, with two vector registers that nobody else uses.
func OnNEON(fn *Func, memory, scratch int) *Retarget { return &Retarget{fn, memory, scratch} }

// Body is a function whose body is written in instructions of AVX2 and, where the set has more, of AVX-512. In a file of arm64 I says them in
// those of NEON, and Load, While and Loop take the names that bodies have for general registers.
type Body struct {
	*Func
	Retarget *Retarget // nil where the function is amd64's
}

// Body returns the body of a function for the set; see OnNEON for the two vector registers.
func (v ISA) Body(fn *Func, memory, scratch int) Body {
	if v.Arch == "arm64" {
		return Body{fn, OnNEON(fn, memory, scratch)}
	}
	return Body{Func: fn}
}

// I emits an instruction, or what does the same.
func (b Body) I(format string, args ...any) {
	if b.Retarget == nil {
		b.Func.I(format, args...)
		return
	}
	if len(args) > 0 {
		format = fmt.Sprintf(format, args...)
	}
	b.Retarget.I(format)
}

// General returns the register that stands for one of a body.
func (b Body) General(reg string) string {
	if b.Retarget == nil {
		return reg
	}
	return b.Retarget.General(reg)
}

// Load is that of Func.
func (b Body) Load(name, reg string) { b.Func.Load(name, b.General(reg)) }

// While is that of Func.
func (b Body) While(count string, step int, body func()) { b.Func.While(b.General(count), step, body) }

// Loop is that of Func.
func (b Body) Loop(count string, body func()) { b.Func.Loop(b.General(count), body) }

// Scratch is the vector register that is free between two instructions.
func (r *Retarget) Scratch() int { return r.scratch }

// Address is the general register that is free between two instructions.
const Address = "R25"

// neonGeneral are the general registers that stand for amd64's.
var neonGeneral = map[string]string{
	"DI": "R0", "SI": "R1", "R8": "R2", "R9": "R3", "R10": "R4", "R11": "R5", "AX": "R6", "BX": "R7", "CX": "R8", "DX": "R9",
	"R12": "R10", "R13": "R11", "R14": "R12", "R15": "R13",
}

// neonThree are the words of instructions of two sources and one result, vd = vn op vm.
var neonThree = map[string]uint32{
	"VADDPS": 0x4e20d400, "VSUBPS": 0x4ea0d400, "VMULPS": 0x6e20dc00, "VDIVPS": 0x6e20fc00, "VMAXPS": 0x4e20f400, "VMINPS": 0x4ea0f400,
	"VADDPD": 0x4e60d400, "VSUBPD": 0x4ee0d400, "VMULPD": 0x6e60dc00, "VDIVPD": 0x6e60fc00, "VMAXPD": 0x4e60f400, "VMINPD": 0x4ee0f400,
	"VFMADD231PD": 0x4e60cc00, "VFNMADD231PD": 0x4ee0cc00, "VANDPD": 0x4e201c00, "VORPD": 0x4ea01c00, "VXORPD": 0x6e201c00,
	"VFMADD231PS": neonFMLA, "VFNMADD231PS": neonFMLS, "VANDPS": 0x4e201c00, "VORPS": 0x4ea01c00, "VXORPS": 0x6e201c00, "VPADDD": 0x4ea08400, "VPSUBD": 0x6ea08400,
}

// neonTwo are those of one source.
var neonTwo = map[string]uint32{"VSQRTPS": 0x6ea1f800, "VSQRTPD": 0x6ee1f800, "VCVTPS2DQ": 0x4e21a800, "VCVTDQ2PS": 0x4e21d800}

// neonRound are those of VROUNDPS by its mode: to the nearest, down, up, towards zero.
var neonRound = map[string]uint32{"$8": 0x4e218800, "$9": 0x4e219800, "$10": 0x4ea18800, "$11": 0x4ea19800}

// neonJumps are jumps by the amd64 names of their conditions.
var neonJumps = map[string]string{"JMP": "B", "JZ": "BEQ", "JEQ": "BEQ", "JNZ": "BNE", "JNE": "BNE", "JLE": "BLE", "JCC": "BEQ"}

// neonDouble is the bit by which rounding of float64 differs from that of float32.
const neonDouble = 1 << 22

const (
	neonFMLA  = 0x4e20cc00
	neonFMLS  = 0x4ea0cc00
	neonFCMEQ = 0x4e20e400
	neonFCMGT = 0x6ea0e400
	neonNOT   = 0x6e205800
)

// I emits one instruction.
func (r *Retarget) I(line string) {
	op, rest, _ := strings.Cut(line, " ")
	operands := strings.Split(rest, ", ")
	if !r.jump(op, operands) && !r.integer(op, operands) && !r.move(op, operands) && !r.scalar(op, operands) {
		r.vector(op, operands)
	}
}

// General returns the register that stands for one of amd64.
func (r *Retarget) General(reg string) string {
	n, ok := neonGeneral[reg]
	if !ok {
		panic("asm: no register of arm64 for " + reg)
	}
	return n
}

// Number is the number of a vector register.
func (r *Retarget) Number(reg string) int {
	n, err := strconv.Atoi(strings.TrimLeft(reg, "XV"))
	if err != nil || !isVector(reg) {
		panic("asm: no vector register: " + reg)
	}
	return n
}

func isVector(operand string) bool {
	return len(operand) > 1 && strings.ContainsRune("XV", rune(operand[0])) && operand[1] >= '0' && operand[1] <= '9'
}

func isTable(operand string) bool { return strings.Contains(operand, "<>") }

// Memory returns an operand in memory; what has an index is added to a register first.
func (r *Retarget) Memory(operand string) string {
	off, rest, _ := strings.Cut(operand, "(")
	base, index, indexed := strings.Cut(strings.TrimSuffix(rest, ")"), ")(")
	switch {
	case base == "FP":
		return operand
	case !indexed:
		return fmt.Sprintf("%s(%s)", off, r.General(base))
	}
	reg, scale, _ := strings.Cut(index, "*")
	shift := map[string]int{"1": 0, "2": 1, "4": 2, "8": 3}[scale]
	r.fn.I("ADD %s<<%d, %s, %s", r.General(reg), shift, r.General(base), Address)
	return fmt.Sprintf("%s(%s)", off, Address)
}

// Source returns the number of the vector register with an operand, which may lie in memory.
func (r *Retarget) Source(operand string) int {
	if isVector(operand) {
		return r.Number(operand)
	}
	r.Fetch(operand, r.memory)
	return r.memory
}

// Fetch loads a vector from a table or other memory.
func (r *Retarget) Fetch(operand string, to int) {
	if isTable(operand) {
		r.fn.I("MOVD $%s, %s", operand, Address)
		operand = "(" + Address + ")"
	} else {
		operand = r.Memory(operand)
	}
	r.fn.I("FMOVQ %s, F%d", operand, to)
}

func (r *Retarget) jump(op string, o []string) bool {
	name, ok := neonJumps[op]
	if ok {
		r.fn.I("%s %s", name, o[0])
	}
	return ok
}

// integer emits what is done with general registers.
func (r *Retarget) integer(op string, o []string) bool {
	fn := r.fn
	// value returns a register with an operand, or the operand that is a number.
	value := func(operand string) string {
		switch {
		case operand[0] == '$':
			return operand
		case strings.HasSuffix(operand, ")"):
			fn.I("MOVD %s, %s", r.Memory(operand), Address)
			return Address
		}
		return r.General(operand)
	}
	switch op {
	case "MOVQ":
		if strings.HasSuffix(o[0], ")") {
			fn.I("MOVD %s, %s", r.Memory(o[0]), r.General(o[1]))
		} else {
			fn.I("MOVD %s, %s", r.General(o[0]), r.General(o[1]))
		}
	case "ADDQ", "SUBQ":
		fn.I("%s %s, %s", op[:3], value(o[0]), r.General(o[1]))
	case "IMULQ":
		fn.I("MOVD %s, %s", o[0], Address)
		fn.I("MUL %s, %s", Address, r.General(o[1]))
	case "LEAQ":
		if isTable(o[0]) {
			fn.I("MOVD $%s, %s", o[0], r.General(o[1]))
			break
		}
		r.Memory(o[0])
		fn.I("MOVD %s, %s", Address, r.General(o[1]))
	case "DECQ":
		if !strings.HasSuffix(o[0], ")") {
			fn.I("SUBS $1, %s, %s", r.General(o[0]), r.General(o[0]))
			break
		}
		fn.I("MOVD %s, %s", r.Memory(o[0]), Address)
		fn.I("SUBS $1, %s, %s", Address, Address)
		fn.I("MOVD %s, %s", Address, r.Memory(o[0]))
	case "CMPQ":
		fn.I("CMP %s, %s", o[1], value(o[0]))
	case "TESTQ":
		if o[0] == o[1] {
			fn.I("CMP $0, %s", r.General(o[0]))
		} else {
			fn.I("TST %s, %s", o[0], r.General(o[1]))
		}
	case "BTQ":
		bit, err := strconv.Atoi(o[0][1:])
		if err != nil {
			panic(err)
		}
		fn.I("TST $%d, %s", 1<<bit, r.General(o[1]))
	case "PREFETCHT0":
		fn.I("PRFM %s, PLDL1KEEP", r.Memory(o[0]))
	case "CMOVQCC", "CMOVQEQ":
		fn.I("CSEL EQ, %s, %s, %s", value(o[0]), r.General(o[1]), r.General(o[1]))
	default:
		return false
	}
	return true
}

// move emits moves of vectors and their lanes.
func (r *Retarget) move(op string, o []string) bool {
	fn := r.fn
	switch {
	case op == "VBROADCASTSS" && isVector(o[0]):
		fn.I("VDUP V%d.S[0], V%d.S4", r.Number(o[0]), r.Number(o[1]))
	case op == "VBROADCASTSS" && isTable(o[0]):
		r.Fetch(o[0], r.Number(o[1])) // which has the number several times
	case op == "VBROADCASTSS":
		fn.I("FMOVS %s, F%d", r.Memory(o[0]), r.Number(o[1]))
		fn.I("VDUP V%d.S[0], V%d.S4", r.Number(o[1]), r.Number(o[1]))
	case op == "VBROADCASTSD" && isTable(o[0]):
		r.Fetch(o[0], r.Number(o[1]))
	case op == "VBROADCASTSD":
		fn.I("FMOVD %s, F%d", r.Memory(o[0]), r.Number(o[1]))
		fn.I("VDUP V%d.D[0], V%d.D2", r.Number(o[1]), r.Number(o[1]))
	case op == "VMOVSD":
		fn.I("FMOVD F%d, %s", r.Number(o[0]), r.Memory(o[1]))
	case op == "VMOVSS":
		fn.I("FMOVS F%d, %s", r.Number(o[0]), r.Memory(o[1]))
	case op != "VMOVUPS" && op != "VMOVAPS":
		return false
	case !isVector(o[1]):
		fn.I("FMOVQ F%d, %s", r.Number(o[0]), r.Memory(o[1]))
	case isVector(o[0]):
		fn.I("VMOV V%d.B16, V%d.B16", r.Number(o[0]), r.Number(o[1]))
	default:
		r.Fetch(o[0], r.Number(o[1]))
	}
	return true
}

// scalar emits what is done with the lowest lane alone.
func (r *Retarget) scalar(op string, o []string) bool {
	fn := r.fn
	name := map[string]string{"VADDSS": "FADDS", "VDIVSS": "FDIVS", "VSQRTSS": "FSQRTS", "VCVTSI2SSQ": "SCVTFS"}[op]
	switch {
	case name == "":
		return false
	case op == "VCVTSI2SSQ":
		fn.I("%s %s, F%d", name, r.General(o[0]), r.Number(o[2]))
	case op == "VSQRTSS":
		fn.I("%s F%d, F%d", name, r.Number(o[0]), r.Number(o[2]))
	case isVector(o[0]):
		fn.I("%s F%d, F%d, F%d", name, r.Number(o[0]), r.Number(o[1]), r.Number(o[2]))
	default:
		fn.I("FMOVS %s, F%d", r.Memory(o[0]), r.memory)
		fn.I("%s F%d, F%d, F%d", name, r.memory, r.Number(o[1]), r.Number(o[2]))
	}
	return true
}

// vector emits what is done lane by lane.
func (r *Retarget) vector(op string, o []string) {
	fn := r.fn
	last := r.Number(o[len(o)-1])
	if word, ok := neonThree[op]; ok {
		fn.Words(three(word, last, r.Number(o[1]), r.Source(o[0])))
		return
	}
	if word, ok := neonTwo[op]; ok {
		fn.Words(three(word, last, r.Source(o[0]), 0))
		return
	}
	switch op {
	case "VFMADD213PS", "VFMADD213PD":
		fn.I("VMOV V%d.B16, V%d.B16", r.Source(o[0]), r.scratch)
		fn.Words(three(neonThree["VFMADD231"+op[len(op)-2:]], r.scratch, r.Number(o[1]), last))
		fn.I("VMOV V%d.B16, V%d.B16", r.scratch, last)
	case "VROUNDPS":
		fn.Words(three(neonRound[o[0]], last, r.Number(o[1]), 0))
	case "VROUNDPD":
		fn.Words(three(neonRound[o[0]]|neonDouble, last, r.Number(o[1]), 0))
	case "VPSRAD":
		fn.VShift("sshr.4s", last, r.Number(o[1]), shift(o[0]))
	case "VPSLLD":
		fn.VShift("shl.4s", last, r.Number(o[1]), shift(o[0]))
	case "VCMPPS":
		r.compare(o[0], r.Number(o[2]), r.Source(o[1]), last, 0)
	case "VCMPPD":
		r.compare(o[0], r.Number(o[2]), r.Source(o[1]), last, neonDouble)
	case "VBLENDVPS":
		if r.Number(o[2]) != last {
			panic("asm: a blend of three registers")
		}
		fn.I("VBIT V%d.B16, V%d.B16, V%d.B16", r.Number(o[0]), r.Number(o[1]), last)
	default:
		panic("asm: no instruction of NEON for " + op)
	}
}

func shift(operand string) int {
	n, err := strconv.Atoi(strings.TrimPrefix(operand, "$"))
	if err != nil {
		panic(err)
	}
	return n
}

// compare writes d = a cmp b, lanes of all bits or none; double is the bit of instructions on float64, or 0.
func (r *Retarget) compare(predicate string, a, b, d int, double uint32) {
	switch predicate {
	case "$0": // equal
		r.fn.Words(three(neonFCMEQ|double, d, a, b))
	case "$1": // less
		r.fn.Words(three(neonFCMGT|double, d, b, a))
	case "$14": // greater
		r.fn.Words(three(neonFCMGT|double, d, a, b))
	case "$5": // not less
		r.fn.Words(three(neonFCMGT|double, d, b, a), three(neonNOT, d, d, 0))
	case "$3": // unordered
		if a != b {
			panic("asm: unordered, of two registers")
		}
		r.fn.Words(three(neonFCMEQ|double, d, a, a), three(neonNOT, d, d, 0))
	default:
		panic("asm: no comparison " + predicate)
	}
}
