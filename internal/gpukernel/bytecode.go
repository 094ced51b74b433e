package gpukernel

import (
	"fmt"
	"strings"
)

// codeWords is the room of program_t, which a launch passes by value: 4096 bytes of parameters is what all devices take.
const codeWords = 480

// interpreterEach is how many elements an item of the interpreter computes by one instruction, and interpreterBuffers how many
// buffers it has.
const (
	interpreterEach    = 4
	interpreterBuffers = 16
	interpreterThreads = 128
	interpreterLocal   = 48 << 10 // bytes of registers of a group
	interpreterLimit   = 200      // statements of the text that a program is made from
)

// opcodes are the instructions of the interpreter, in the order of their numbers. The kernel's text has them as OP_NAME.
var opcodes = strings.Fields(`
	end ldi mov mov64 sel sel64 loop next keep slot fetch spread
	load_f16 load_bf16 load_i8 load_u8 load_i16 load_u16 load_32 load_64 table_32 table_64
	store_f16 store_bf16 store_8 store_16 store_32 store_64
	add_f32 sub_f32 mul_f32 div_f32 lt_f32 le_f32 eq_f32 ne_f32 min_f32 max_f32 pow_f32 fmod_f32 leaky_f32
	clip_f32 hard_sigmoid_f32 fma_f32
	exp_f32 log_f32 log1p_f32 sqrt_f32 tanh_f32 erf_f32 sin_f32 cos_f32 tan_f32 asin_f32 acos_f32 atan_f32 sinh_f32 cosh_f32
	asinh_f32 acosh_f32 atanh_f32 floor_f32 ceil_f32 rint_f32 fabs_f32 sigmoid_f32 silu_f32 gelu_f32 gelu_tanh_f32 hard_swish_f32
	relu_f32 isnan_f32 neg_f32
	add_i32 sub_i32 mul_i32 div_i32 mod_i32 lt_i32 le_i32 eq_i32 ne_i32 and_i32 or_i32 xor_i32 shl_i32 shr_i32
	addi_i32 muli_i32 divi_i32 modi_i32 div_u32 mod_u32 lt_u32 le_u32 shr_u32
	add_i64 sub_i64 mul_i64 div_i64 mod_i64 lt_i64 le_i64 eq_i64 ne_i64 and_i64 or_i64 xor_i64 shl_i64 shr_i64
	div_u64 mod_u64 lt_u64 le_u64 shr_u64
	land lor lnot f32_of_i32 f32_of_u32 f32_of_i64 f32_of_u64 i32_of_f32 u32_of_f32 i64_of_f32 u64_of_f32 i64_of_i32 i64_of_u32
	i8_of_i32 u8_of_i32 i16_of_i32 u16_of_i32 f16_of_f32 f32_of_f16 bf16_of_f32 f32_of_bf16`)

var opcodeNumbers = func() map[string]int {
	m := make(map[string]int, len(opcodes))
	for i, name := range opcodes {
		m[name] = i
	}
	return m
}()

// none is a register that an instruction does not name.
const none = -1

// instruction is one of the interpreter's, on virtual registers.
type instruction struct {
	op        string
	d         int // what it writes
	a, b, c   int // what it reads
	imm       uint32
	immediate bool // imm counts; else c is passed there
	high      uint32
}

// code is a program for the interpreter under construction. Each virtual register is written by one instruction, but for those
// that loops accumulate into.
type code struct {
	list   []instruction
	wide   []bool // by virtual register: of 64 bits
	fixed  int    // the first so many virtual registers are those of the same number
	tables []uint64
}

// tooLong says that a program does not fit the interpreter.
type tooLong struct{}

func (c *code) register(wide bool) int {
	c.wide = append(c.wide, wide)
	return len(c.wide) - 1
}

// op appends an instruction that reads registers, and returns the one that it writes.
func (c *code) op(name string, wide bool, reads ...int) int {
	in := instruction{op: name, d: c.register(wide), a: none, b: none, c: none}
	for i, to := range []*int{&in.a, &in.b, &in.c}[:len(reads)] {
		*to = reads[i]
	}
	c.list = append(c.list, in)
	return in.d
}

// with appends an instruction with a number.
func (c *code) with(in instruction, imm uint32) {
	in.imm, in.immediate = imm, true
	c.list = append(c.list, in)
}

// table adds elements to what stands behind the instructions, and returns the word at which they begin among the tables'.
func (c *code) table(elements []uint64, wide bool) int {
	at := len(c.tables)
	if wide {
		c.tables = append(c.tables, elements...)
		return at
	}
	for i, x := range elements {
		if i%2 == 0 {
			c.tables = append(c.tables, x&0xffffffff)
		} else {
			c.tables[len(c.tables)-1] |= x << 32
		}
	}
	return at
}

// lasts returns the number of the last instruction that needs each register: what is written in front of a loop and read in it is
// needed until it ends.
func (c *code) lasts() []int {
	defined, last := make([]int, len(c.wide)), make([]int, len(c.wide))
	for i := range defined {
		defined[i] = none
	}
	begin := none
	var reads []int
	for i, in := range c.list {
		switch in.op {
		case "loop":
			begin = i
		case "next":
			for _, v := range reads {
				if defined[v] < begin {
					last[v] = i
				}
			}
			begin, reads = none, nil
		}
		for _, v := range []int{in.a, in.b, in.c, in.d} {
			if v == none {
				continue
			}
			last[v] = i
			if begin != none {
				reads = append(reads, v)
			}
		}
		if in.d != none && defined[in.d] == none {
			defined[in.d] = i
		}
	}
	return last
}

// encode gives virtual registers places, and returns the words of the program, padded to codeWords, and how many places it needs.
// It panics with tooLong where there are too many of either.
func (c *code) encode() (words []uint64, registers int) {
	last := c.lasts()
	place := make([]int, len(c.wide))
	used := make([]int, 256) // by place: the last instruction that needs it
	for i := range used {
		used[i] = none
	}
	for v := range place {
		place[v] = none
		if v < c.fixed {
			place[v], used[v] = v, len(c.list)
		}
	}
	registers = c.fixed
	const most = 240
	put := func(in instruction, d, a, b int, imm uint32) {
		words = append(words, uint64(opcodeNumbers[in.op])|uint64(uint8(d))<<8|uint64(uint8(a))<<16|uint64(uint8(b))<<24|uint64(imm)<<32)
	}
	at := func(v int) int {
		if v == none {
			return 255
		}
		return place[v]
	}
	var tables []int // instructions that name a place among the tables
	for i, in := range c.list {
		if v := in.d; v != none && place[v] == none {
			size := 1
			if c.wide[v] {
				size = 2
			}
			k := 0
			keeps := i // an operand's place may be the result's, where instructions of several steps do not still read it
			if in.op == "fetch" || in.op == "slot" {
				keeps--
			}
			for k+size <= most && (used[k] > keeps || size == 2 && used[k+1] > keeps) {
				k++
			}
			if k+size > most {
				panic(tooLong{})
			}
			place[v] = k
			for j := range size {
				used[k+j] = last[v]
			}
			registers = max(registers, k+size)
		}
		imm := in.imm
		if !in.immediate {
			imm = uint32(uint8(at(in.c)))
		}
		if strings.HasPrefix(in.op, "table") {
			tables = append(tables, len(words))
		}
		put(in, at(in.d), at(in.a), at(in.b), imm)
		if in.d != none && c.wide[in.d] { // instructions that work on one word come twice
			switch in.op {
			case "ldi":
				put(in, at(in.d)+1, 255, 255, in.high)
			case "keep", "slot", "fetch", "spread":
				put(in, at(in.d)+1, at(in.a)+1, 255, imm)
			}
		}
	}
	for _, t := range tables {
		words[t] += uint64(len(words)) << 32
	}
	words = append(words, c.tables...)
	if len(words) > codeWords {
		panic(tooLong{})
	}
	return append(words, make([]uint64, codeWords-len(words))...), registers
}

// interpreterThreadsFor returns how many items a group may have that all have so many registers, a power of two; 0 where it is too
// many registers.
func interpreterThreadsFor(registers int) int {
	for t := interpreterThreads; t >= 32; t /= 2 {
		if interpreterArena(registers, t) <= interpreterLocal {
			return t
		}
	}
	return 0
}

func interpreterArena(registers, threads int) int { return registers * interpreterEach * threads * 4 }

// interpreter returns the kernel that runs programs: element by element, or row by row.
func interpreter(name string, rows bool) *Kernel {
	k := &Kernel{Name: name, Threads: interpreterThreads, Arena: interpreterLocal, Waits: rows, Files: []string{"interpret.h"}, Body: source("interpret_body.h")}
	for i := range interpreterBuffers {
		k.Params = append(k.Params, Param{Name: fmt.Sprintf("p%d", i), Type: U8, Written: true})
	}
	for _, s := range []string{"items", "total", "columns", "lanes"} {
		k.Params = append(k.Params, Param{Name: s, Type: I32, Scalar: true})
	}
	k.Params = append(k.Params, Param{Name: "program", Type: "program_t", Scalar: true})
	k.Defines = []Define{def("EACH", interpreterEach), def("ROWS", flag(rows))}
	for i, op := range opcodes {
		k.Defines = append(k.Defines, def("OP_"+op, i))
	}
	return k
}
