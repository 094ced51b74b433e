/* Adds the sums of the splits of a product, always in their order, and finishes it. One item an element. */
{
	const int at = GROUP(0) * THREADS + ITEM;
	const int batch = GROUP(2), batch0 = batch / BATCH1, batch1 = batch - batch0 * BATCH1;
	const i64 batch_c = (i64)batch0 * C_BATCH0 + (i64)batch1 * C_BATCH1;
	if (at < rows * COLUMNS) {
		const int m = at / COLUMNS, n = at - m * COLUMNS;
		REAL v = 0;
		UNROLL for (int s = 0; s < SPLITS; s++) v += partial[((i64)batch * SPLITS + s) * rows * COLUMNS + at];
		FINISH(v, m, n)
		STORE(C_T, c, batch_c + (i64)m * LDC + n, v);
	}
}
