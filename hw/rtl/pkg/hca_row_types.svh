// Writes of rows by firmware: part of hca_pkg.

// Write of a rule for frames (hca_rx_match, hca_rx_steer). A strobe.
typedef struct packed {
  logic                     valid;
  logic [$clog2(Rules)-1:0] index;
  rule_row_t                row;
} rule_wr_t;

// Write of a row, or of an entry of an indirection table, for hca_rss. Strobes.
typedef struct packed {
  logic                      valid;
  logic [$clog2(RssQps)-1:0] index;
  rss_row_t                  row;
} rss_wr_t;

typedef struct packed {
  logic                                   valid;
  logic [$clog2(RssQps * RssEntries)-1:0] index;
  logic [23:0]                            qpn;
} rss_qp_wr_t;

// Write of a row of the lists of QPs that share datagrams (hca_rx_group).
typedef struct packed {
  logic [GroupW-1:0] index;
  group_row_t        row;
} group_wr_t;

// Write of a page of device memory (hca_device_memory).
typedef struct packed {
  logic [DmRowW-1:0] page;
  logic              there;
  logic [7:0]        func;   // whose it is
} dm_page_t;
