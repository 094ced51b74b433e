{
	ARENA(arena);
	A_T *stages = (A_T *)arena;
	const int item = ITEM;
	BLOCK_PLACE

	const int lane = item % 32, warp = item / 32;
	const int warp_m = warp / WARPS_N * WM, warp_n = warp % WARPS_N * WN;

	const int left_chunk = item % A_CHUNKS * A_VECTOR;
	LEFT_STATE
	UNROLL for (int i = 0; i < A_COPIES; i++) {
		int m = row0 + (item + i * THREADS) / A_CHUNKS;
		LEFT_ROW(i, m)
	}

	f32 sum[FRAGMENTS_M][FRAGMENTS_N][4];
	UNROLL for (int i = 0; i < FRAGMENTS_M; i++) {
		UNROLL for (int j = 0; j < FRAGMENTS_N; j++) {
			UNROLL for (int e = 0; e < 4; e++) sum[i][j][e] = 0.0f;
		}
	}

	UNROLL for (int s = 0; s < STAGES - 1; s++) {
		if (s < slices) LOAD_STAGE(s, slice0 + s)
		COPY_COMMIT();
	}
	int stage = 0;
	NO_UNROLL
	for (int t = 0; t < slices; t++) {
		COPY_WAIT(STAGES - 2);
		BARRIER();
		int ahead = t + STAGES - 1;
		int into = stage == 0 ? STAGES - 1 : stage - 1;
		if (ahead < slices) LOAD_STAGE(into, slice0 + ahead)
		COPY_COMMIT();

		const A_T *as = stages + stage * STAGE_ELEMENTS + warp_m * A_PITCH;
#if B_TRANSPOSED
		const A_T *bs = stages + stage * STAGE_ELEMENTS + BM * A_PITCH + warp_n * B_PITCH;
#else
		const A_T *bs = stages + stage * STAGE_ELEMENTS + BM * A_PITCH + warp_n;
#endif
		UNROLL for (int k = 0; k < BK; k += STEP_K) {
			u32 left[FRAGMENTS_M][4], right[FRAGMENTS_N / 2][4];
			UNROLL for (int i = 0; i < FRAGMENTS_M; i++) LOAD_LEFT(left[i], i, k)
			UNROLL for (int j = 0; j < FRAGMENTS_N / 2; j++) LOAD_RIGHT(right[j], j * 2, k)
			UNROLL for (int i = 0; i < FRAGMENTS_M; i++) {
				UNROLL for (int j = 0; j < FRAGMENTS_N; j++) {
					MULTIPLY(sum[i][j], left[i], right[j / 2][j % 2 * 2], right[j / 2][j % 2 * 2 + 1]);
				}
			}
		}
		stage = stage == STAGES - 1 ? 0 : stage + 1;
	}

	UNROLL for (int i = 0; i < FRAGMENTS_M; i++) {
		UNROLL for (int h = 0; h < 2; h++) {
			int m = row0 + warp_m + i * 16 + h * 8 + lane / 4;
			if (m < rows) {
				UNROLL for (int j = 0; j < FRAGMENTS_N; j++) {
					int n = column0 + warp_n + j * 8 + lane % 4 * 2;
					f32 v0 = sum[i][j][h * 2], v1 = sum[i][j][h * 2 + 1];
					if (n + 1 < COLUMNS) {
						FINISH(v0, m, n)
						FINISH(v1, m, n + 1)
						STORE_PAIR(batch_c + (i64)m * LDC + n, v0, v1)
					} else if (n < COLUMNS) {
						FINISH(v0, m, n)
						STORE(C_T, c, batch_c + (i64)m * LDC + n, v0);
					}
				}
			}
		}
	}
}
