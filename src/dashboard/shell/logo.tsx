/** A ticket counter's window, and an L. */
export const Logo = () => (
  <svg className="logo" viewBox="0 0 32 32" aria-hidden="true">
    <rect width="32" height="32" rx="9" className="logo-ground" />
    <path d="M10 8h4.5v11.5H22V24H10z" className="logo-letter" />
    <circle cx="20.5" cy="11.5" r="3.5" className="logo-coin" />
  </svg>
)
