/* Where the left operand of a product comes from: a matrix in memory, one row after another. */
#define LEFT_STATE const GLOBAL A_T *left_row[A_COPIES]; int left_valid[A_COPIES];
#define LEFT_ROW(i, m) \
	left_valid[i] = (m) < rows; \
	left_row[i] = a + batch_a + (i64)(left_valid[i] ? (m) : 0) * LDA;
#define LEFT_COLUMN(k)
#define LEFT_TAKE(i, k) (left_valid[i] && (k) < DEPTH)
#define LEFT_SOURCE(i, k) (left_row[i] + (k))
