/*
 * A product for processors that stand in for graphics processors: an item computes rows of a few vectors by itself, with what
 * it reads in the processor's caches, and waits for nobody. Row m of the left operand is a row of a matrix, or the window of
 * output m; its columns are those of PLACES pieces of PIECE elements. The last vectors of a row may begin earlier, so that they
 * are whole: two items then store the same results.
 */
{
	const int strips = (rows + TM * STEPS - 1) / (TM * STEPS);
	const int column = GROUP(0) / strips, strip = GROUP(0) - column * strips;
	const int batch0 = GROUP(2) / BATCH1, batch1 = GROUP(2) - batch0 * BATCH1;
	const i64 batch_a = (i64)batch0 * A_BATCH0 + (i64)batch1 * A_BATCH1;
	const i64 batch_c = (i64)batch0 * C_BATCH0 + (i64)batch1 * C_BATCH1;
	const int n0 = column * (TV * VECTOR) < COLUMNS - TV * VECTOR ? column * (TV * VECTOR) : COLUMNS - TV * VECTOR;
	const GLOBAL f32 *right = b + (i64)batch0 * B_BATCH0 + (i64)batch1 * B_BATCH1 + n0;
	NO_UNROLL
	for (int s = 0; s < STEPS; s++) {
		const int m0 = (strip * STEPS + s) * TM;
		if (m0 >= rows) break;
		VEC_T sum[TM][TV];
		UNROLL for (int i = 0; i < TM; i++) {
			UNROLL for (int j = 0; j < TV; j++) sum[i][j] = VEC_SPLAT(0.0f);
		}
		const GLOBAL f32 *image[TM];
		int h[TM], w[TM];
#ifdef IN_D
		int d[TM];
#endif
		UNROLL for (int i = 0; i < TM; i++) {
			const int m = m0 + i < rows ? m0 + i : rows - 1;
#if WINDOWED
			const int pixel = m / OUT_W, n = pixel / OUT_H;
			h[i] = (pixel - n * OUT_H) * STRIDE_H - PAD_H;
			w[i] = (m - pixel * OUT_W) * STRIDE_W - PAD_W;
#ifdef IN_D
			const int volume = n / OUT_D;
			d[i] = (n - volume * OUT_D) * STRIDE_D - PAD_D;
			image[i] = a + batch_a + (i64)volume * IN_D * (IN_H * IN_W) * IN_STRIDE;
#else
			image[i] = a + batch_a + (i64)n * (IN_H * IN_W) * IN_STRIDE;
#endif
#else
			h[i] = w[i] = 0;
			image[i] = a + batch_a + (i64)m * LDA;
#endif
		}
		NO_UNROLL
		for (int place = 0; place < PLACES; place++) {
			const GLOBAL f32 *left[TM];
			int inside[TM], all = 1;
			UNROLL for (int i = 0; i < TM; i++) {
#if WINDOWED
#ifdef IN_D
				const int kd = place / (KERNEL_H * KERNEL_W), flat = place - kd * (KERNEL_H * KERNEL_W), id = d[i] + kd * DILATION_D;
#else
				const int flat = place, id = 0;
#endif
				const int kh = flat / KERNEL_W, ih = h[i] + kh * DILATION_H, iw = w[i] + (flat - kh * KERNEL_W) * DILATION_W;
				inside[i] = (u32)ih < (u32)IN_H && (u32)iw < (u32)IN_W;
#ifdef IN_D
				inside[i] = inside[i] && (u32)id < (u32)IN_D;
#endif
				left[i] = inside[i] ? image[i] + (((i64)id * IN_H + ih) * IN_W + iw) * IN_STRIDE : image[i];
#else
				inside[i] = 1;
				left[i] = image[i];
#endif
				all &= inside[i];
			}
			const GLOBAL f32 *from = right + (i64)place * PIECE * LDB;
			if (all) {
				NO_UNROLL
				for (int k = 0; k < PIECE; k++, from += LDB) {
					VEC_T v[TV];
					UNROLL for (int j = 0; j < TV; j++) v[j] = VEC_READ(from + j * VECTOR);
					UNROLL for (int i = 0; i < TM; i++) {
						UNROLL for (int j = 0; j < TV; j++) sum[i][j] = VEC_FMA(VEC_SPLAT(left[i][k]), v[j], sum[i][j]);
					}
				}
			} else {
				NO_UNROLL
				for (int k = 0; k < PIECE; k++, from += LDB) {
					VEC_T v[TV];
					UNROLL for (int j = 0; j < TV; j++) v[j] = VEC_READ(from + j * VECTOR);
					UNROLL for (int i = 0; i < TM; i++) {
						const f32 x = inside[i] ? left[i][k] : 0.0f;
						UNROLL for (int j = 0; j < TV; j++) sum[i][j] = VEC_FMA(VEC_SPLAT(x), v[j], sum[i][j]);
					}
				}
			}
		}
		UNROLL for (int i = 0; i < TM; i++) {
			const int m = m0 + i;
			if (m < rows) {
				UNROLL for (int j = 0; j < TV; j++) {
					f32 result[VECTOR];
					VEC_KEEP(sum[i][j], result);
					UNROLL for (int e = 0; e < VECTOR; e++) {
						f32 v = result[e];
						FINISH(v, m, n0 + j * VECTOR + e)
						STORE(C_T, c, batch_c + (i64)m * LDC + n0 + j * VECTOR + e, v);
					}
				}
			}
		}
	}
}
