{
	ARENA(arena);
	LOCAL f32 *qs = (LOCAL f32 *)arena, *ks = qs + TILE * DEPTH_PITCH, *vs = ks + TILE * DEPTH_PITCH;
	LOCAL f32 *products = vs + TILE * WIDTH_PITCH, *greatest = products + TILE * PRODUCT_PITCH;
	LOCAL f32 *sums = greatest + TILE, *shrink = sums + TILE, *parts = shrink + TILE;
	const int item = ITEM, ty = item / SIDE, tx = item % SIDE;
	const int batch = GROUP(1) / HEADS, head = GROUP(1) % HEADS, first = GROUP(0) * TILE;
	const GLOBAL Q_T *q_head = q + (i64)batch * Q_BATCH + (i64)head * Q_HEAD;
	const GLOBAL K_T *k_head = keys + (i64)batch * K_BATCH + (i64)(head / SHARED_BY) * K_HEAD;
	const GLOBAL V_T *v_head = values + (i64)batch * V_BATCH + (i64)(head / SHARED_BY) * V_HEAD;
	const int my_row = item / PER_ROW, my_part = item % PER_ROW;

	COPY_ROWS(Q_WHOLE, qs, DEPTH_PITCH, Q_T, q_head, Q_ROW, first, QUERIES, DEPTH)
	COPY_COMMIT();
	if (item < TILE) {
		greatest[item] = NEGATIVE_INFINITY;
		sums[item] = 0.0f;
	}
	f32 sum[4][COLUMN_BLOCKS][4];
	UNROLL for (int i = 0; i < 4; i++) {
		UNROLL for (int j = 0; j < COLUMN_BLOCKS; j++) {
			UNROLL for (int e = 0; e < 4; e++) sum[i][j][e] = 0.0f;
		}
	}

	/* Where queries see no later key, whole tiles of keys need not be looked at. */
	int last = KEYS;
	if (CAUSAL && first + TILE + KEYS - QUERIES < last) last = first + TILE + KEYS - QUERIES;
	NO_UNROLL
	for (int key0 = 0; key0 < last; key0 += TILE) {
		COPY_ROWS(K_WHOLE, ks, DEPTH_PITCH, K_T, k_head, K_ROW, key0, KEYS, DEPTH)
		COPY_COMMIT();
		COPY_ROWS(V_WHOLE, vs, WIDTH_PITCH, V_T, v_head, V_ROW, key0, KEYS, WIDTH)
		COPY_COMMIT();
		COPY_WAIT(1);
		BARRIER();

		f32 product[4][4];
		UNROLL for (int i = 0; i < 4; i++) {
			UNROLL for (int j = 0; j < 4; j++) product[i][j] = 0.0f;
		}
		for (int d = 0; d < DEPTH4; d += 4) {
			f32x4 x[4], y[4];
			UNROLL for (int i = 0; i < 4; i++) x[i] = READ_LOCAL_F32X4(qs + (ty * 4 + i) * DEPTH_PITCH + d);
			UNROLL for (int j = 0; j < 4; j++) y[j] = READ_LOCAL_F32X4(ks + (tx + j * SIDE) * DEPTH_PITCH + d);
			UNROLL for (int i = 0; i < 4; i++) {
				UNROLL for (int j = 0; j < 4; j++) product[i][j] = DOT_4(x[i], y[j], product[i][j]);
			}
		}
		UNROLL for (int i = 0; i < 4; i++) {
			UNROLL for (int j = 0; j < 4; j++) {
				const int query = first + ty * 4 + i, key = key0 + tx + j * SIDE;
				f32 v = NEGATIVE_INFINITY;
				if (query < QUERIES && key < KEYS && (!CAUSAL || key <= query + KEYS - QUERIES)) v = product[i][j] * SCALE + MASK(query, key);
				products[(ty * 4 + i) * PRODUCT_PITCH + tx + j * SIDE] = v;
			}
		}
		BARRIER();

		LOCAL f32 *row = products + my_row * PRODUCT_PITCH + my_part;
		f32 most = NEGATIVE_INFINITY;
		UNROLL for (int i = 0; i < 16; i++) most = max_f32(most, row[i * PER_ROW]);
		parts[item] = most;
		BARRIER();
		const f32 before = greatest[my_row];
		most = before;
		UNROLL for (int i = 0; i < PER_ROW; i++) most = max_f32(most, parts[my_row * PER_ROW + i]);
		const f32 base = most == NEGATIVE_INFINITY ? 0.0f : most;
		BARRIER();
		f32 part = 0.0f;
		UNROLL for (int i = 0; i < 16; i++) {
			const f32 p = exp_f32(row[i * PER_ROW] - base);
			row[i * PER_ROW] = p;
			part += p;
		}
		parts[item] = part;
		COPY_WAIT(0);
		BARRIER();
		if (my_part == 0) {
			f32 all = 0.0f;
			UNROLL for (int i = 0; i < PER_ROW; i++) all += parts[my_row * PER_ROW + i];
			const f32 factor = exp_f32(before - base);
			shrink[my_row] = factor;
			greatest[my_row] = most;
			sums[my_row] = sums[my_row] * factor + all;
		}
		BARRIER();

		UNROLL for (int i = 0; i < 4; i++) {
			const f32 factor = shrink[ty * 4 + i];
			UNROLL for (int j = 0; j < COLUMN_BLOCKS; j++) {
				UNROLL for (int e = 0; e < 4; e++) sum[i][j][e] *= factor;
			}
		}
		for (int k = 0; k < TILE; k += 4) {
			f32x4 p[4];
			UNROLL for (int i = 0; i < 4; i++) p[i] = READ_LOCAL_F32X4(products + (ty * 4 + i) * PRODUCT_PITCH + k);
			UNROLL for (int j = 0; j < COLUMN_BLOCKS; j++) {
				const int column = j * TILE + tx * 4;
				if (column < WIDTH4) {
					UNROLL for (int kk = 0; kk < 4; kk++) {
						const f32x4 v = READ_LOCAL_F32X4(vs + (k + kk) * WIDTH_PITCH + column);
						UNROLL for (int i = 0; i < 4; i++) {
							const f32 x = PART_4(p[i], kk);
							sum[i][j][0] = fma_f32(x, v.x, sum[i][j][0]);
							sum[i][j][1] = fma_f32(x, v.y, sum[i][j][1]);
							sum[i][j][2] = fma_f32(x, v.z, sum[i][j][2]);
							sum[i][j][3] = fma_f32(x, v.w, sum[i][j][3]);
						}
					}
				}
			}
		}
		BARRIER();
	}
	COPY_WAIT(0);
	BARRIER();

	UNROLL for (int i = 0; i < 4; i++) {
		const int query = first + ty * 4 + i;
		if (query < QUERIES) {
			const f32 all = sums[ty * 4 + i];
			const f32 inverse = all == 0.0f ? 0.0f : 1.0f / all;
			UNROLL for (int j = 0; j < COLUMN_BLOCKS; j++) {
				UNROLL for (int e = 0; e < 4; e++) {
					const int column = j * TILE + tx * 4 + e;
					if (column < WIDTH) STORE(C_T, c, (i64)batch * C_BATCH + (i64)head * C_HEAD + (i64)query * C_ROW + column, sum[i][j][e] * inverse);
				}
			}
		}
	}
}
