/*
 * Runs a program, a list of instructions of 64 bits: from the lowest bits on 8 each say what is done, to which register, from which
 * two, and 32 are a number or a third register. All items of a group are at the same instruction, each on EACH elements.
 *
 * Without ROWS register 0 begins as the number of the element, of total ones. With ROWS it is that of the row, of total ones that
 * so many lanes share, and in loops register 1 is the column; accumulators keep what they have where an item is beyond the last one.
 * Registers of 64 bits are two, the lower half first.
 */
{
	ARENA(arena);
	LOCAL u32 *const r = (LOCAL u32 *)arena + ITEM;
	int live = 0; /* by bit: elements whose results count */
#if ROWS
	const int lane = ITEM & (lanes - 1);
	const i32 wanted = GROUP(0) * (items / lanes) + ITEM / lanes;
	const i32 row = wanted < total ? wanted : total - 1;
	const int owns = wanted < total && lane == 0;
	int begin = 0;
	i32 first = 0;
	UNROLL for (int v = 0; v < EACH; v++) SET_i32(0, v, row);
	live = owns;
#else
	UNROLL for (int v = 0; v < EACH; v++) {
		const i32 at = (GROUP(0) * EACH + v) * items + ITEM;
		live |= (at < total) << v;
		SET_i32(0, v, at < total ? at : total - 1);
	}
#endif
	NO_UNROLL
	for (int pc = 0;;) {
		const u64 word = program.code[pc++];
		const int d = (int)(word >> 8) & 255, a = (int)(word >> 16) & 255, b = (int)(word >> 24) & 255;
		const u32 imm = (u32)(word >> 32);
		const int c = (int)imm & 255;
		switch ((int)word & 255) {
		case OP_end: return;
		case OP_ldi: {
			UNROLL for (int v = 0; v < EACH; v++) SET_u32(d, v, imm);
			break;
		}
		UNARY(mov, u32, u32, x)
		UNARY(mov64, u64, u64, x)
		case OP_sel: {
			UNROLL for (int v = 0; v < EACH; v++) SET_u32(d, v, GET_u32(a, v) ? GET_u32(b, v) : GET_u32(c, v));
			break;
		}
		case OP_sel64: {
			UNROLL for (int v = 0; v < EACH; v++) SET_u64(d, v, GET_u32(a, v) ? GET_u64(b, v) : GET_u64(c, v));
			break;
		}
#if ROWS
		/* A pass over the columns: the lanes of a row take EACH of them in turn. */
		case OP_loop:
		case OP_next: {
			if (((int)word & 255) == OP_loop) {
				begin = pc;
				first = 0;
			} else {
				first += lanes * EACH;
				if (first >= columns) {
					live = owns;
					break;
				}
				pc = begin;
			}
			live = 0;
			UNROLL for (int v = 0; v < EACH; v++) {
				const i32 at = first + v * lanes + lane;
				live |= (at < columns && wanted < total) << v;
				SET_i32(1, v, at < columns ? at : columns - 1);
			}
			break;
		}
		case OP_keep: {
			UNROLL for (int v = 0; v < EACH; v++) {
				if (live >> v & 1) SET_u32(d, v, GET_u32(a, v));
			}
			break;
		}
		/* The first element of an item meets its others, then those of other lanes; at last all get that of the first lane. */
		case OP_slot: SET_u32(d, 0, GET_u32(a, imm)); break;
		case OP_fetch: {
			BARRIER();
			const u32 x = lane < (int)imm ? (&AT(a, 0))[imm] : AT(a, 0);
			BARRIER();
			SET_u32(d, 0, x);
			break;
		}
		case OP_spread: {
			BARRIER();
			const u32 x = (&AT(a, 0))[-lane];
			BARRIER();
			UNROLL for (int v = 0; v < EACH; v++) SET_u32(d, v, x);
			break;
		}
#endif
		LOAD_OF(f16, f16, f32, f32_of_f16(x))
		LOAD_OF(bf16, bf16, f32, f32_of_bf16(x))
		LOAD_OF(i8, i8, i32, x)
		LOAD_OF(u8, u8, i32, x)
		LOAD_OF(i16, i16, i32, x)
		LOAD_OF(u16, u16, i32, x)
		LOAD_OF(32, u32, u32, x)
		LOAD_OF(64, u64, u64, x)
		case OP_table_32: {
			UNROLL for (int v = 0; v < EACH; v++) {
				const i32 at = b == 255 || GET_i32(b, v) ? GET_i32(a, v) : 0;
				SET_u32(d, v, program.code[imm + (at >> 1)] >> ((at & 1) * 32));
			}
			break;
		}
		case OP_table_64: {
			UNROLL for (int v = 0; v < EACH; v++) {
				const i32 at = b == 255 || GET_i32(b, v) ? GET_i32(a, v) : 0;
				SET_u64(d, v, program.code[imm + at]);
			}
			break;
		}
		STORE_OF(f16, f16, f32, f16_of_f32(x))
		STORE_OF(bf16, bf16, f32, bf16_of_f32(x))
		STORE_OF(8, u8, u32, x)
		STORE_OF(16, u16, u32, x)
		STORE_OF(32, u32, u32, x)
		STORE_OF(64, u64, u64, x)

		BINARY(add_f32, f32, f32, x + y)
		BINARY(sub_f32, f32, f32, x - y)
		BINARY(mul_f32, f32, f32, x * y)
		LONG_BINARY(div_f32, f32, x / y)
		BINARY(lt_f32, f32, i32, x < y)
		BINARY(le_f32, f32, i32, x <= y)
		BINARY(eq_f32, f32, i32, x == y)
		BINARY(ne_f32, f32, i32, x != y)
		BINARY(min_f32, f32, f32, min_f32(x, y))
		BINARY(max_f32, f32, f32, max_f32(x, y))
		BINARY(leaky_f32, f32, f32, leaky_f32(x, y))
		LONG_BINARY(pow_f32, f32, pow_f32(x, y))
		LONG_BINARY(fmod_f32, f32, fmod_f32(x, y))
		TERNARY(clip_f32)
		TERNARY(hard_sigmoid_f32)
		TERNARY(fma_f32)
		LONG_UNARY(exp_f32)
		LONG_UNARY(log_f32)
		LONG_UNARY(log1p_f32)
		LONG_UNARY(sqrt_f32)
		LONG_UNARY(tanh_f32)
		LONG_UNARY(erf_f32)
		LONG_UNARY(sin_f32)
		LONG_UNARY(cos_f32)
		LONG_UNARY(tan_f32)
		LONG_UNARY(asin_f32)
		LONG_UNARY(acos_f32)
		LONG_UNARY(atan_f32)
		LONG_UNARY(sinh_f32)
		LONG_UNARY(cosh_f32)
		LONG_UNARY(asinh_f32)
		LONG_UNARY(acosh_f32)
		LONG_UNARY(atanh_f32)
		LONG_UNARY(sigmoid_f32)
		LONG_UNARY(silu_f32)
		LONG_UNARY(gelu_f32)
		LONG_UNARY(gelu_tanh_f32)
		LONG_UNARY(hard_swish_f32)
		UNARY(floor_f32, f32, f32, floor_f32(x))
		UNARY(ceil_f32, f32, f32, ceil_f32(x))
		UNARY(rint_f32, f32, f32, rint_f32(x))
		UNARY(fabs_f32, f32, f32, fabs_f32(x))
		UNARY(relu_f32, f32, f32, relu_f32(x))
		UNARY(isnan_f32, f32, i32, isnan_f32(x))
		UNARY(neg_f32, f32, f32, -x)

		/* Signed arithmetic wraps around; a division that has no result has some number. */
		BINARY(add_i32, u32, u32, x + y)
		BINARY(sub_i32, u32, u32, x - y)
		BINARY(mul_i32, u32, u32, x * y)
		LONG_BINARY(div_i32, i32, y == 0 ? 0 : y == -1 ? (i32)(0u - (u32)x) : x / y)
		LONG_BINARY(mod_i32, i32, y == 0 || y == -1 ? 0 : x % y)
		BINARY(lt_i32, i32, i32, x < y)
		BINARY(le_i32, i32, i32, x <= y)
		BINARY(eq_i32, i32, i32, x == y)
		BINARY(ne_i32, i32, i32, x != y)
		BINARY(and_i32, u32, u32, x & y)
		BINARY(or_i32, u32, u32, x | y)
		BINARY(xor_i32, u32, u32, x ^ y)
		BINARY(shl_i32, u32, u32, x << (y & 31))
		BINARY(shr_i32, i32, i32, x >> (y & 31))
		UNARY(addi_i32, u32, u32, x + imm)
		UNARY(muli_i32, u32, u32, x * imm)
		UNARY(divi_i32, i32, i32, x / (i32)imm)
		UNARY(modi_i32, i32, i32, x % (i32)imm)
		LONG_BINARY(div_u32, u32, y == 0 ? 0 : x / y)
		LONG_BINARY(mod_u32, u32, y == 0 ? 0 : x % y)
		BINARY(lt_u32, u32, i32, x < y)
		BINARY(le_u32, u32, i32, x <= y)
		BINARY(shr_u32, u32, u32, x >> (y & 31))
		BINARY(add_i64, u64, u64, x + y)
		BINARY(sub_i64, u64, u64, x - y)
		BINARY(mul_i64, u64, u64, x * y)
		LONG_BINARY(div_i64, i64, y == 0 ? 0 : y == -1 ? (i64)((u64)0 - (u64)x) : x / y)
		LONG_BINARY(mod_i64, i64, y == 0 || y == -1 ? 0 : x % y)
		BINARY(lt_i64, i64, i32, x < y)
		BINARY(le_i64, i64, i32, x <= y)
		BINARY(eq_i64, i64, i32, x == y)
		BINARY(ne_i64, i64, i32, x != y)
		BINARY(and_i64, u64, u64, x & y)
		BINARY(or_i64, u64, u64, x | y)
		BINARY(xor_i64, u64, u64, x ^ y)
		BINARY(shl_i64, u64, u64, x << (y & 63))
		BINARY(shr_i64, i64, i64, x >> (y & 63))
		LONG_BINARY(div_u64, u64, y == 0 ? 0 : x / y)
		LONG_BINARY(mod_u64, u64, y == 0 ? 0 : x % y)
		BINARY(lt_u64, u64, i32, x < y)
		BINARY(le_u64, u64, i32, x <= y)
		BINARY(shr_u64, u64, u64, x >> (y & 63))
		BINARY(land, u32, u32, x && y)
		BINARY(lor, u32, u32, x || y)
		UNARY(lnot, u32, u32, !x)

		UNARY(f32_of_i32, i32, f32, (f32)x)
		UNARY(f32_of_u32, u32, f32, (f32)x)
		UNARY(f32_of_i64, i64, f32, (f32)x)
		UNARY(f32_of_u64, u64, f32, (f32)x)
		UNARY(i32_of_f32, f32, i32, (i32)x)
		UNARY(u32_of_f32, f32, u32, (u32)x)
		UNARY(i64_of_f32, f32, i64, i64_of_f32(x))
		UNARY(u64_of_f32, f32, u64, u64_of_f32(x))
		UNARY(i64_of_i32, i32, i64, (i64)x)
		UNARY(i64_of_u32, u32, u64, (u64)x)
		UNARY(i8_of_i32, i32, i32, (i8)x)
		UNARY(u8_of_i32, i32, i32, (u8)x)
		UNARY(i16_of_i32, i32, i32, (i16)x)
		UNARY(u16_of_i32, i32, i32, (u16)x)
		UNARY(f16_of_f32, f32, u32, f16_of_f32(x))
		UNARY(f32_of_f16, u32, f32, f32_of_f16((f16)x))
		UNARY(bf16_of_f32, f32, u32, bf16_of_f32(x))
		UNARY(f32_of_bf16, u32, f32, f32_of_bf16((bf16)x))
		default: return;
		}
	}
}
