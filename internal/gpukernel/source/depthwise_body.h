/* Channels lie together, so that neighbouring items read neighbouring words; a row of the image is read once for all outputs. */
{
	const int at = GROUP(0) * THREADS + ITEM;
	if (at < items) {
		const int per_pixel = CHANNELS / ACROSS, per_row = (OUT_W + WIDE - 1) / WIDE;
		const int channel = at % per_pixel * ACROSS, strip = at / per_pixel;
		const int ow0 = strip % per_row * WIDE, row = strip / per_row;
		const int image = row / OUT_H, oh = row - image * OUT_H;
		const int ih0 = oh * STRIDE_H - PAD_H, iw0 = ow0 * STRIDE_W - PAD_W;
		f32 sum[WIDE][ACROSS];
		UNROLL for (int t = 0; t < WIDE; t++) {
			UNROLL for (int e = 0; e < ACROSS; e++) sum[t][e] = 0.0f;
		}
		NO_UNROLL
		for (int kh = 0; kh < KERNEL_H; kh++) {
			const int ih = ih0 + kh * DILATION_H;
			if ((u32)ih >= (u32)IN_H) continue;
			const GLOBAL A_T *from = a + ((i64)image * IN_H + ih) * IN_W * IN_STRIDE + channel;
			const GLOBAL A_T *weight = b + kh * KERNEL_W * CHANNELS + channel;
			UNROLL for (int kw = 0; kw < KERNEL_W; kw++) {
				f32 w[ACROSS];
				LOAD_ACROSS(w, weight + kw * CHANNELS)
				UNROLL for (int t = 0; t < WIDE; t++) {
					const int iw = iw0 + t * STRIDE_W + kw * DILATION_W;
					if ((u32)iw < (u32)IN_W) {
						f32 x[ACROSS];
						LOAD_ACROSS(x, from + (i64)iw * IN_STRIDE)
						UNROLL for (int e = 0; e < ACROSS; e++) sum[t][e] = fma_f32(x[e], w[e], sum[t][e]);
					}
				}
			}
		}
		UNROLL for (int t = 0; t < WIDE; t++) {
			const int m = row * OUT_W + ow0 + t;
			if (ow0 + t < OUT_W) {
				UNROLL for (int e = 0; e < ACROSS; e++) FINISH_ELEMENT(sum[t][e], m, channel + e)
				STORE_ACROSS(c + (i64)m * OUT_STRIDE + channel, sum[t])
			}
		}
	}
}
