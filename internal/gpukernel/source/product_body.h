{
	ARENA(arena);
	LOCAL STAGE_T *stages = (LOCAL STAGE_T *)arena;
	const int item = ITEM;
	BLOCK_PLACE

	const int lane = item % 32, warp = item / 32;
	const int m0 = warp / WARPS_N * (4 * TM) + ((lane & 1) | (lane >> 4) << 1);
	const int n0 = warp % WARPS_N * (8 * TN) + ((lane >> 1) & 7) * 4;

	const int left_chunk = item % A_CHUNKS * A_VECTOR;
	LEFT_STATE
	UNROLL for (int i = 0; i < A_COPIES; i++) {
		int m = row0 + (item + i * THREADS) / A_CHUNKS;
		LEFT_ROW(i, m)
	}

	REAL sum[TM][TN];
	UNROLL for (int i = 0; i < TM; i++) {
		UNROLL for (int j = 0; j < TN; j++) sum[i][j] = 0;
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

		const LOCAL STAGE_T *as = stages + stage * STAGE_ELEMENTS + m0 * A_PITCH;
		const LOCAL STAGE_T *bs = stages + stage * STAGE_ELEMENTS + BM * A_PITCH + n0;
		UNROLL for (int k = 0; k < BK; k += 4) {
			REAL_X4 left[TM];
			UNROLL for (int i = 0; i < TM; i++) left[i] = READ_STAGE(as + i * 4 * A_PITCH + k);
			UNROLL for (int kk = 0; kk < 4; kk++) {
				REAL_X4 right[TN / 4];
				UNROLL for (int j = 0; j < TN / 4; j++) right[j] = READ_STAGE(bs + (k + kk) * B_PITCH + j * 32);
				UNROLL for (int i = 0; i < TM; i++) {
					REAL x = PART_4(left[i], kk);
					UNROLL for (int j = 0; j < TN / 4; j++) {
						sum[i][j * 4 + 0] = FMA(x, right[j].x, sum[i][j * 4 + 0]);
						sum[i][j * 4 + 1] = FMA(x, right[j].y, sum[i][j * 4 + 1]);
						sum[i][j * 4 + 2] = FMA(x, right[j].z, sum[i][j * 4 + 2]);
						sum[i][j * 4 + 3] = FMA(x, right[j].w, sum[i][j * 4 + 3]);
					}
				}
			}
		}
		stage = stage == STAGES - 1 ? 0 : stage + 1;
	}

	UNROLL for (int i = 0; i < TM; i++) {
		int m = row0 + m0 + i * 4;
		if (m < rows) {
			UNROLL for (int j = 0; j < TN / 4; j++) {
				int n = column0 + n0 + j * 32;
#if C_VECTOR == 4
				if (n < COLUMNS) {
					f32 v0 = sum[i][j * 4], v1 = sum[i][j * 4 + 1], v2 = sum[i][j * 4 + 2], v3 = sum[i][j * 4 + 3];
					FINISH(v0, m, n)
					FINISH(v1, m, n + 1)
					FINISH(v2, m, n + 2)
					FINISH(v3, m, n + 3)
					WRITE_F32X4(c + batch_c + (i64)m * LDC + n, MAKE_F32X4(v0, v1, v2, v3));
				}
#else
				UNROLL for (int e = 0; e < 4; e++) {
					if (n + e < COLUMNS) {
						REAL v = sum[i][j * 4 + e];
						FINISH(v, m, n + e)
						STORE(C_T, c, batch_c + (i64)m * LDC + n + e, v);
					}
				}
#endif
			}
		}
	}
}
