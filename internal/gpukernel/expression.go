package gpukernel

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// operand is what an expression is, while it is translated: a number that is known, or a register.
type operand struct {
	t    string // the C type: f32, i32, u32, i64 or u64
	reg  int    // none where it is known
	bits uint64 // of a number; the low half of the word for types of 32 bits
}

func wideType(t string) bool { return t == "i64" || t == "u64" }

// translator turns statements of the dialect, as the emitter writes them, into code. It knows no more of C than the emitter does.
type translator struct {
	*code
	e         *emitter
	variables map[string]operand
	constants map[string]int // registers that hold numbers
	tables    map[string]int // words where tables begin
	tokens    []string
	at        int
	guards    []int // registers: what has to hold where the text at hand is evaluated
}

// untranslatable is what the translator panics with about text that it does not know.
type untranslatable struct{ why string }

func (t *translator) refuse(format string, args ...any) {
	panic(untranslatable{fmt.Sprintf(format, args...)})
}

// statements translates lines.
func (t *translator) statements(text string) {
	for line := range strings.Lines(text) {
		if t.tokens, t.at = tokensOf(line), 0; len(t.tokens) > 0 {
			t.statement()
		}
	}
}

// tokensOf splits a line into words, numbers and signs.
func tokensOf(line string) []string {
	var list []string
	word := func(c byte) bool {
		return c == '_' || c == '.' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
	}
	for i := 0; i < len(line); {
		c, j := line[i], i+1
		switch {
		case c == ' ' || c == '\t' || c == '\n':
			i++
			continue
		case word(c):
			digit := c >= '0' && c <= '9'
			for j < len(line) && (word(line[j]) || digit && (line[j] == '-' || line[j] == '+') && line[j-1] == 'e' && !strings.HasPrefix(line[i:], "0x")) {
				j++
			}
		case j < len(line):
			switch line[i : j+1] {
			case "==", "!=", "<=", ">=", "&&", "||", "<<", ">>":
				j++
			}
		}
		list = append(list, line[i:j])
		i = j
	}
	return list
}

func (t *translator) peek() string {
	if t.at < len(t.tokens) {
		return t.tokens[t.at]
	}
	return ""
}

func (t *translator) next() string {
	s := t.peek()
	t.at++
	return s
}

func (t *translator) want(s string) {
	if got := t.next(); got != s {
		t.refuse("%q and not %q in %q", got, s, strings.Join(t.tokens, " "))
	}
}

// computeTypes are the types of variables.
var computeTypes = map[string]string{"f32": "f32", "i32": "i32", "int": "i32", "u32": "u32", "i64": "i64", "u64": "u64"}

func (t *translator) statement() {
	first := t.next()
	switch {
	case first == "const":
		typ, name := computeTypes[t.next()], t.next()
		t.want("=")
		t.variables[name] = t.convert(t.expression(0), typ)
	case first == "STORE":
		t.want("(")
		typ := Type(t.next())
		t.want(",")
		p := t.next()
		t.want(",")
		place := t.expression(0)
		t.want(",")
		t.store(p, typ, place, t.expression(0))
		t.want(")")
	case t.peek() == "=": // what loops accumulate
		t.next()
		v, known := t.variables[first]
		if !known || v.reg == none {
			t.refuse("no variable %q", first)
		}
		x := t.in(t.convert(t.expression(0), v.t))
		t.list = append(t.list, instruction{op: "keep", d: v.reg, a: x, b: none, c: none})
	case t.peek() == "[":
		t.next()
		place := t.expression(0)
		t.want("]")
		t.want("=")
		t.store(first, t.param(first).Type, place, t.expression(0))
	default:
		t.refuse("%q", strings.Join(t.tokens, " "))
	}
}

// accumulator declares a variable that loops write.
func (t *translator) accumulator(name, typ, initial string) operand {
	t.tokens, t.at = tokensOf(initial), 0
	x := t.convert(t.expression(0), typ)
	v := operand{t: typ, reg: t.register(wideType(typ))}
	t.list = append(t.list, instruction{op: "ldi", d: v.reg, a: none, b: none, c: none, imm: uint32(x.bits), high: uint32(x.bits >> 32), immediate: true})
	t.variables[name] = v
	return v
}

// combine has the lanes of a row put together what each accumulated: all get the result.
func (t *translator) combine(v operand, function string, lanes int) {
	joined := func(step string, n int) {
		part := t.register(wideType(v.t))
		t.with(instruction{op: step, d: part, a: v.reg, b: none}, uint32(n))
		x := t.call(function, []operand{v, {t: v.t, reg: part}})
		t.with(instruction{op: "slot", d: v.reg, a: x.reg, b: none}, 0)
	}
	for k := 1; k < interpreterEach; k++ {
		joined("slot", k)
	}
	for step := lanes / 2; step > 0; step /= 2 {
		joined("fetch", step)
	}
	t.with(instruction{op: "spread", d: v.reg, a: v.reg, b: none}, 0)
}

func (t *translator) param(name string) Param {
	for _, p := range t.e.params {
		if p.Name == name {
			return p
		}
	}
	t.refuse("no buffer %q", name)
	return Param{}
}

func (t *translator) buffer(name string) int {
	for i, p := range t.e.params {
		if p.Name == name {
			return i
		}
	}
	t.refuse("no buffer %q", name)
	return 0
}

func (t *translator) store(p string, typ Type, place, v operand) {
	op := map[Type]string{F32: "store_32", F16: "store_f16", BF16: "store_bf16"}[typ]
	if op == "" {
		op = fmt.Sprintf("store_%d", 8*typ.Size())
	}
	v = t.convert(v, computeTypes[typ.compute()])
	t.with(instruction{op: op, d: none, a: t.in(t.convert(place, "i32")), b: t.in(v), c: none}, uint32(t.buffer(p)))
}

// load reads an element of a buffer.
func (t *translator) load(p string, place operand) operand {
	typ := t.param(p).Type
	op := map[Type]string{F32: "load_32", I32: "load_32", U32: "load_32", I64: "load_64", U64: "load_64", Bool: "load_u8"}[typ]
	if op == "" {
		op = "load_" + string(typ)
	}
	r := operand{t: typ.compute(), reg: t.register(typ.Size() == 8)}
	t.with(instruction{op: op, d: r.reg, a: t.in(t.convert(place, "i32")), b: t.guard(), c: none}, uint32(t.buffer(p)))
	return r
}

// guard returns the register of what has to hold where something is read; none where it always may be.
func (t *translator) guard() int {
	if n := len(t.guards); n > 0 {
		return t.guards[n-1]
	}
	return none
}

// element reads an element of a table.
func (t *translator) element(name string, place operand) operand {
	n := t.tableOf(name)
	typ := n.typ.compute()
	at, there := t.tables[name]
	if !there {
		list := make([]uint64, len(n.table))
		for i, literal := range n.table {
			sub := translator{tokens: tokensOf(literal)}
			list[i] = sub.convert(sub.expression(0), typ).bits
			if !wideType(typ) {
				list[i] &= 0xffffffff
			}
		}
		at = t.table(list, wideType(typ))
		t.tables[name] = at
	}
	op := "table_32"
	if wideType(typ) {
		op = "table_64"
	}
	r := operand{t: typ, reg: t.register(wideType(typ))}
	t.with(instruction{op: op, d: r.reg, a: t.in(t.convert(place, "i32")), b: t.guard(), c: none}, uint32(at))
	return r
}

func (t *translator) tableOf(name string) *node {
	if t.e != nil {
		for v := range t.e.tables {
			if name == fmt.Sprintf("%s_table%d", t.e.kernel, v) {
				return &t.e.p.nodes[v]
			}
		}
	}
	t.refuse("no variable %q", name)
	return nil
}

// in returns the register of an operand, which is loaded where it is a number.
func (t *translator) in(v operand) int {
	if v.reg != none {
		return v.reg
	}
	key := fmt.Sprint(wideType(v.t), v.bits)
	if r, ok := t.constants[key]; ok {
		return r
	}
	r := t.register(wideType(v.t))
	t.list = append(t.list, instruction{op: "ldi", d: r, a: none, b: none, c: none, imm: uint32(v.bits), high: uint32(v.bits >> 32), immediate: true})
	t.constants[key] = r
	return r
}

// binaries are the operators of two operands, by how strongly they bind.
var binaries = map[string]int{"||": 1, "&&": 2, "|": 3, "^": 4, "&": 5, "==": 6, "!=": 6, "<": 7, "<=": 7, ">": 7, ">=": 7, "<<": 8, ">>": 8, "+": 9, "-": 9, "*": 10, "/": 10, "%": 10}

// expression translates what binds more strongly than least.
func (t *translator) expression(least int) operand {
	x := t.unary()
	for {
		op := t.peek()
		if op == "?" && least == 0 {
			t.next()
			x = t.choice(x)
			continue
		}
		strength, ok := binaries[op]
		if !ok || strength <= least {
			return x
		}
		t.next()
		x = t.binary(op, x, t.expression(strength))
	}
}

// choice translates what stands behind a question mark. Both sides are computed; they read memory only where they are chosen.
func (t *translator) choice(test operand) operand {
	if test.reg == none {
		yes := t.expression(0)
		t.want(":")
		no := t.expression(0)
		if test.bits == 0 {
			yes, no = no, yes
		}
		return t.convert(yes, common(yes.t, no.t))
	}
	test = t.truth(test)
	g := test.reg
	if outer := t.guard(); outer != none {
		g = t.op("land", false, outer, g)
	}
	t.guards = append(t.guards, g)
	yes := t.expression(0)
	t.guards = t.guards[:len(t.guards)-1]
	t.want(":")
	no := t.expression(0)
	typ := common(yes.t, no.t)
	yes, no = t.convert(yes, typ), t.convert(no, typ)
	op := "sel"
	if wideType(typ) {
		op = "sel64"
	}
	return operand{t: typ, reg: t.op(op, wideType(typ), test.reg, t.in(yes), t.in(no))}
}

// truth returns an i32 that is zero where v is.
func (t *translator) truth(v operand) operand {
	if v.t == "i32" || v.t == "u32" {
		return operand{t: "i32", reg: t.in(v)}
	}
	return t.binary("!=", v, operand{t: v.t, reg: none})
}

// common returns the type in which two are combined.
func common(a, b string) string {
	for _, t := range []string{"f32", "u64", "i64", "u32"} {
		if a == t || b == t {
			return t
		}
	}
	return "i32"
}

func (t *translator) unary() operand {
	switch s := t.next(); s {
	case "-":
		x := t.unary()
		if x.reg == none && x.t == "f32" {
			x.bits ^= 1 << 31
			return x
		}
		if x.t == "f32" {
			return operand{t: x.t, reg: t.op("neg_f32", false, x.reg)}
		}
		return t.binary("-", operand{t: x.t, reg: none}, x)
	case "!":
		return operand{t: "i32", reg: t.op("lnot", false, t.truth(t.unary()).reg)}
	case "~":
		x := t.unary()
		return t.binary("^", x, operand{t: x.t, reg: none, bits: ^uint64(0)})
	case "(":
		if typ, ok := castTypes[t.peek()]; ok && t.at+1 < len(t.tokens) && t.tokens[t.at+1] == ")" {
			t.at += 2
			x := t.unary()
			if typ.narrow != "" {
				return operand{t: "i32", reg: t.op(typ.narrow, false, t.in(t.convert(x, "i32")))}
			}
			return t.convert(x, typ.t)
		}
		x := t.expression(0)
		t.want(")")
		return x
	default:
		return t.primary(s)
	}
}

// castTypes are the types that are cast to; narrow ones are computed in i32.
var castTypes = map[string]struct{ t, narrow string }{
	"f32": {"f32", ""}, "i32": {"i32", ""}, "int": {"i32", ""}, "u32": {"u32", ""}, "i64": {"i64", ""}, "u64": {"u64", ""},
	"i8": {"i32", "i8_of_i32"}, "u8": {"i32", "u8_of_i32"}, "i16": {"i32", "i16_of_i32"}, "u16": {"i32", "u16_of_i32"},
}

func (t *translator) primary(s string) operand {
	switch {
	case s == "NEGATIVE_INFINITY":
		return operand{t: "f32", reg: none, bits: 0xff800000}
	case s == "QUIET_NAN":
		return operand{t: "f32", reg: none, bits: 0x7fc00000}
	case s != "" && s[0] >= '0' && s[0] <= '9':
		return t.number(s)
	case t.peek() == "(":
		t.next()
		if s == "LOAD" {
			t.next() // its type is the buffer's
			t.want(",")
			p := t.next()
			t.want(",")
			place := t.expression(0)
			t.want(")")
			return t.load(p, place)
		}
		var args []operand
		for t.peek() != ")" {
			args = append(args, t.expression(0))
			if t.peek() == "," {
				t.next()
			}
		}
		t.next()
		return t.call(s, args)
	case t.peek() == "[":
		t.next()
		place := t.expression(0)
		t.want("]")
		if strings.HasPrefix(s, "p") && !strings.Contains(s, "_table") {
			return t.load(s, place)
		}
		return t.element(s, place)
	}
	v, ok := t.variables[s]
	if !ok {
		t.refuse("no variable %q", s)
	}
	return v
}

// number reads a literal of C.
func (t *translator) number(s string) operand {
	hexadecimal := strings.HasPrefix(s, "0x")
	if !hexadecimal && strings.ContainsAny(s, ".ef") {
		f, err := strconv.ParseFloat(strings.TrimSuffix(s, "f"), 32)
		if err != nil || !strings.HasSuffix(s, "f") {
			t.refuse("%q", s)
		}
		return operand{t: "f32", reg: none, bits: uint64(math.Float32bits(float32(f)))}
	}
	digits := strings.TrimRight(s, "uUlL")
	n, err := strconv.ParseUint(digits, 0, 64)
	if err != nil || n > math.MaxUint32 {
		t.refuse("%q", s)
	}
	if digits != s || n > math.MaxInt32 {
		return operand{t: "u32", reg: none, bits: n}
	}
	return operand{t: "i32", reg: none, bits: n}
}

// calls are the functions that are instructions of the same name, with their operands and the type of the result.
var calls = func() map[string]struct {
	operands int
	result   string
} {
	m := map[string]struct {
		operands int
		result   string
	}{}
	for _, name := range opcodes {
		if !strings.HasSuffix(name, "_f32") || strings.Contains(name, "_of_") {
			continue
		}
		n, result := 1, "f32"
		switch name {
		case "min_f32", "max_f32", "pow_f32", "fmod_f32", "leaky_f32":
			n = 2
		case "clip_f32", "hard_sigmoid_f32", "fma_f32":
			n = 3
		case "isnan_f32":
			result = "i32"
		case "add_f32", "sub_f32", "mul_f32", "div_f32", "lt_f32", "le_f32", "eq_f32", "ne_f32", "neg_f32":
			continue
		}
		m[name] = struct {
			operands int
			result   string
		}{n, result}
	}
	return m
}()

func (t *translator) call(name string, args []operand) operand {
	two := len(args) == 2
	switch {
	case two && (name == "ADD_f32" || name == "ADD_integer"):
		return t.binary("+", args[0], args[1])
	case two && (name == "MULTIPLY_f32" || name == "MULTIPLY_integer"):
		return t.binary("*", args[0], args[1])
	case two && name == "MAXIMUM_f32":
		name = "max_f32"
	case two && name == "MINIMUM_f32":
		name = "min_f32"
	case two && (name == "MAXIMUM_integer" || name == "MINIMUM_integer"):
		typ := common(args[0].t, args[1].t)
		less := t.binary("<", args[0], args[1])
		if name == "MAXIMUM_integer" {
			less = t.binary(">", args[0], args[1])
		}
		op := "sel"
		if wideType(typ) {
			op = "sel64"
		}
		return operand{t: typ, reg: t.op(op, wideType(typ), less.reg, t.in(t.convert(args[0], typ)), t.in(t.convert(args[1], typ)))}
	case name == "f32_of_bits" && len(args) == 1:
		x := t.convert(args[0], "u32")
		return operand{"f32", x.reg, x.bits}
	case name == "bits_of_f32" && len(args) == 1:
		x := t.convert(args[0], "f32")
		return operand{"u32", x.reg, x.bits}
	case (name == "f16_of_f32" || name == "bf16_of_f32") && len(args) == 1:
		return operand{t: "u32", reg: t.op(name, false, t.in(t.convert(args[0], "f32")))}
	case (name == "f32_of_f16" || name == "f32_of_bf16") && len(args) == 1:
		return operand{t: "f32", reg: t.op(name, false, t.in(t.convert(args[0], "u32")))}
	}
	if to, ok := strings.CutSuffix(name, "_of_f32"); ok && wideType(to) && len(args) == 1 {
		return t.convert(t.convert(args[0], "f32"), to)
	}
	f, ok := calls[name]
	if !ok || len(args) != f.operands {
		t.refuse("no function %s of %d operands", name, len(args))
	}
	reads := make([]int, len(args))
	for i, a := range args {
		reads[i] = t.in(t.convert(a, "f32"))
	}
	return operand{t: f.result, reg: t.op(name, false, reads...)}
}

// convert gives a value another type.
func (t *translator) convert(v operand, to string) operand {
	if v.t == to || to == "" {
		return v
	}
	if v.reg == none {
		return operand{to, none, converted(v, to)}
	}
	name := ""
	switch {
	case to == "f32":
		name = "f32_of_" + v.t
	case v.t == "f32":
		name = to + "_of_f32"
	case wideType(to) && !wideType(v.t):
		name = "i64_of_" + v.t
	case !wideType(to) && wideType(v.t):
		return operand{t: to, reg: t.op("mov", false, v.reg)} // the lower half
	default:
		return operand{t: to, reg: v.reg}
	}
	return operand{t: to, reg: t.op(name, wideType(to), v.reg)}
}

// converted is convert for numbers.
func converted(v operand, to string) uint64 {
	n := signed(v)
	switch {
	case to == "f32":
		f := float32(n)
		if v.t == "u64" {
			f = float32(v.bits)
		}
		return uint64(math.Float32bits(f))
	case v.t == "f32":
		switch f := float64(math.Float32frombits(uint32(v.bits))); {
		case to == "u64" && f >= 1<<64:
			return math.MaxUint64
		case to == "u64" && f >= 1<<63:
			return uint64(f)
		case f >= 1<<63:
			n = math.MaxInt64
		case f < -1<<63:
			n = math.MinInt64
		case f == f:
			n = int64(f)
		default:
			n = 0
		}
	}
	if wideType(to) {
		return uint64(n)
	}
	return uint64(uint32(n))
}

// signed returns the value of an integer.
func signed(v operand) int64 {
	switch v.t {
	case "i32":
		return int64(int32(v.bits))
	case "u32":
		return int64(uint32(v.bits))
	}
	return int64(v.bits)
}
