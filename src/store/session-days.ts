/** How long a session lasts, for its row and for the cookie that carries its token (decisions §10). */
export const SESSION_DAYS = 30
