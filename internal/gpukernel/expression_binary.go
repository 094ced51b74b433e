package gpukernel

// binary translates an operator of two operands.
func (t *translator) binary(op string, x, y operand) operand {
	switch op {
	case "&&", "||":
		name := map[string]string{"&&": "land", "||": "lor"}[op]
		a, b := t.truth(x), t.truth(y)
		return operand{t: "i32", reg: t.op(name, false, a.reg, b.reg)}
	case "<<", ">>":
		return t.shift(op, x, y)
	case ">", ">=":
		return t.binary(map[string]string{">": "<", ">=": "<="}[op], y, x)
	}
	typ := common(x.t, y.t)
	x, y = t.convert(x, typ), t.convert(y, typ)
	if x.reg == none && y.reg == none && typ != "f32" {
		if v, ok := folded(op, typ, x, y); ok {
			return v
		}
	}
	name := map[string]string{"+": "add", "-": "sub", "*": "mul", "/": "div", "%": "mod", "<": "lt", "<=": "le", "==": "eq", "!=": "ne", "&": "and", "|": "or", "^": "xor"}[op]
	result := typ
	switch name {
	case "lt", "le", "eq", "ne":
		result = "i32"
	case "div", "mod":
		if typ == "i32" && y.reg == none && int32(y.bits) > 0 {
			return t.immediate(name+"i_i32", x, y)
		}
	case "add", "mul":
		if x.reg == none {
			x, y = y, x
		}
		if (typ == "i32" || typ == "u32") && y.reg == none {
			return t.immediate(name+"i_i32", x, y)
		}
	case "and", "or", "xor":
		if typ == "f32" {
			t.refuse("%s of floats", op)
		}
	}
	suffix := typ
	switch name { // signed and unsigned arithmetic are the same
	case "add", "sub", "mul", "eq", "ne", "and", "or", "xor":
		suffix = map[string]string{"f32": "f32", "i32": "i32", "u32": "i32", "i64": "i64", "u64": "i64"}[typ]
	}
	if _, ok := opcodeNumbers[name+"_"+suffix]; !ok {
		t.refuse("%s of %s", op, typ)
	}
	return operand{t: result, reg: t.op(name+"_"+suffix, wideType(result), t.in(x), t.in(y))}
}

// immediate translates an operator whose second operand is a number.
func (t *translator) immediate(name string, x, y operand) operand {
	r := operand{t: x.t, reg: t.register(false)}
	t.with(instruction{op: name, d: r.reg, a: t.in(x), b: none, c: none}, uint32(y.bits))
	return r
}

// shift translates a shift, whose type is that of its left operand.
func (t *translator) shift(op string, x, y operand) operand {
	y = t.convert(y, x.t)
	if x.t == "f32" {
		t.refuse("%s of floats", op)
	}
	if x.reg == none && y.reg == none {
		if v, ok := folded(op, x.t, x, y); ok {
			return v
		}
	}
	name := "shl_i32"
	switch {
	case op == ">>":
		name = "shr_" + x.t
	case wideType(x.t):
		name = "shl_i64"
	}
	return operand{t: x.t, reg: t.op(name, wideType(x.t), t.in(x), t.in(y))}
}

// folded computes an operator on integers that are known.
func folded(op, typ string, x, y operand) (operand, bool) {
	a, b := x.bits, y.bits
	var n uint64
	switch op {
	case "+":
		n = a + b
	case "-":
		n = a - b
	case "*":
		n = a * b
	case "&":
		n = a & b
	case "|":
		n = a | b
	case "^":
		n = a ^ b
	case "<<":
		n = a << (b & 63)
	default:
		return operand{}, false
	}
	if !wideType(typ) {
		n &= 0xffffffff
	}
	return operand{typ, none, n}, true
}
