/* ACROSS neighbouring elements to and from floats, four of them at once. */
#if ACROSS == 4
#define LOAD_ACROSS(v, p) PASTE(LOAD4_, A_T)(v, p)
#define STORE_ACROSS(p, v) PASTE(STORE4_, C_T)(p, v)
#else
#define LOAD_ACROSS(v, p) v[0] = LOAD(A_T, p, 0);
#define STORE_ACROSS(p, v) STORE(C_T, p, 0, v[0]);
#endif
#define FINISH_ELEMENT(x, m, n) { f32 v = x; FINISH(v, m, n) x = v; }
