// The requester's receive side for one QP at a time: acknowledges, READ responses, local errors, timeouts.
// start_i: job, context, state and marks are valid (now_*, st_i); context and marks stay so until done_o, and from
// the next cycle on they are there without now_, early. With void_i in that cycle the job is none after all. It walks
// the outstanding message table from the oldest entry (two cycles per completed WQE, at most MaxOutstanding), then acts
// once; done_o carries the new state. An ACK of nothing else than the end of the WQE it has come to acts there and
// then. Waits only for item_ready_i. Rules: README.md, table 2.
module hca_ack_unit
  import hca_pkg::*, hca_rx_pkg::*, hca_rx_state_pkg::*;
(
  input  logic            clk_i,
  input  logic            rst_i,
  input  logic            start_i,
  input  ack_job_t        now_job_i,
  input  logic            void_i,
  input  logic            has_pkt_i,   // the job is a packet: its buffer is freed with the last item
  input  rxd_t            rxd_i,       // it, from the cycle after start_i on
  input  rx_ctx_t         now_ctx_i,   // with start_i
  input  logic            now_dead_i,
  input  hw_mark_t        now_mark_i,
  input  ack_st_t         st_i,
  input  rx_ctx_t         ctx_i,       // the same behind it
  input  logic            dead_i,
  input  hw_mark_t        mark_i,
  output omt_ask_t        ask_o,
  input  logic [MsgBlkW-1:0] blk_i,    // in the cycle after ask_o.map_en, held
  input  omt_row_t        row_i,       // in the cycle after ask_o.row_en, held
  output logic            item_valid_o,
  input  logic            item_ready_i,
  output rxw_t            item_o,
  output wqe_at_t         list_o,      // for item_o.needs_list
  output logic            done_o,
  output ack_st_t         st_o,
  output logic            dead_o,
  // With done_o:
  output logic            upd_valid_o,
  output ack_upd_t        upd_o,
  output logic            ev_valid_o,
  output rx_ev_t          ev_o
);

  typedef enum logic [2:0] {
    StIdle,
    StMap,    // block of the row
    StWalk,
    StRead,
    StLook,     // selective: marks of READ data are looked at
    StSeek,     // the WQE of READ data behind a gap: is this row its row?
    StSeekMap,  // block of the next one
    StEnd
  } state_e;

  state_e      state_q, state_d;
  ack_st_t     ack_q, ack_d;
  logic [23:0] target_q;  // PSNs before this one are acknowledged
  logic        live_q;    // the packet answers something outstanding
  logic        plain_q;   // an ACK, not a NAK
  ack_job_t    job_q;
  logic        moved_q, moved_d;
  logic        implied_q, implied_d;  // a READ or atomic inside the range has no data yet: implied NAK
  logic        second_q, second_d;    // second decision: behind a completed READ
  logic        looked_q, looked_d;    // there were marks
  logic        passes_q, passes_d;    // READs whose data came behind a gap that is filled complete, too
  logic        found_q, found_d;      // the row is that of READ data behind a gap, WQE at_wqe
  logic        seek;                  // the row behind it is looked at
  wqe_idx_t    at_wqe;
  logic [MsgBlkW-1:0] at_blk;

  ack_said_t said;

  // ---- Start ---------------------------------------------------------------------------------------
  // Between jobs everything but the state is taken as if one began, every cycle: what a job begins with then does not
  // wait for the verdict on its packet.
  logic idles, is_pkt, in_window, plain_ack;
  assign idles     = state_q == StIdle;
  assign is_pkt    = now_job_i.kind == AjAck || now_job_i.kind == AjRead;
  assign plain_ack = now_job_i.kind == AjAck && now_job_i.syndrome[6:5] == 2'b00;
  assign in_window = psn_within(now_job_i.psn, st_i.una_psn, now_mark_i.psn);

  logic blk_ok, look, advance, over, ends_block;
  assign blk_ok   = idles ? st_i.blk_ok : ack_q.blk_ok;
  assign look     = idles || state_q == StRead;
  assign ends_block = ack_q.una_wqe[MsgRowW-1:0] == '1;

  always_comb begin
    ask_o.map_en   = look && !blk_ok;
    ask_o.next_en  = seek && at_wqe[MsgRowW-1:0] == '1;
    ask_o.row_en   = (look && blk_ok) || state_q inside {StMap, StSeekMap}
                     || (seek && at_wqe[MsgRowW-1:0] != '1);
    ask_o.wqe      = idles ? st_i.una_wqe : ack_q.una_wqe;
    ask_o.blk      = idles ? st_i.blk : ack_q.blk;
    if (state_q inside {StMap, StSeekMap}) ask_o.blk = blk_i;
    if (state_q == StSeek) {ask_o.wqe, ask_o.blk} = {at_wqe + 1'b1, at_blk};
    if (state_q == StSeekMap) ask_o.wqe = at_wqe;
    ask_o.free     = over && ends_block;
    ask_o.free_blk = ack_q.blk;
    ask_o.free_wqe = ack_q.una_wqe;
  end

  // ---- Walk ----------------------------------------------------------------------------------------
  logic walk_on, row_in, row_read, pend_here, complete;  // row_read: waits for data
  logic at_target, at_first, at_target_q, at_pend, row_is_all, all_sent;
  logic [23:0] target;
  // Of the row, in StEnd: where it is looked at there, it stood there in the cycle before.
  logic [23:0] row_last_q, row_next_q;    // its last PSN; the one behind it
  logic        row_at_q, row_signaled_q;
  logic        row_is_last, row_is_last_q;   // nothing has been sent behind it
  assign target = now_job_i.psn + 24'(plain_ack);
  // Where a job begins, for the next cycle; behind it.
  hca_same #(.Width(24)) u_at_first (.a_i(st_i.una_psn), .b_i(target), .same_o(at_first));
  hca_same #(.Width(24)) u_at_target (.a_i(ack_q.una_psn), .b_i(target_q), .same_o(at_target));
  hca_same #(.Width(24))           u_all_sent (.a_i(ack_q.una_psn), .b_i(mark_i.psn), .same_o(all_sent));
  hca_same #(.Width(24))           u_row_is_all (.a_i(row_i.last_psn), .b_i(job_q.psn), .same_o(row_is_all));
  hca_same #(.Width(WqeIndexBits)) u_at_pend (.a_i(ack_q.pend_wqe), .b_i(ack_q.una_wqe), .same_o(at_pend));

  assign walk_on   = live_q && !void_i && !at_target_q;   // which it has come to is compared a cycle before
  assign row_in    = psn_within(row_i.last_psn, ack_q.una_psn, target_q);
  assign row_read  = row_i.answered;
  assign pend_here = ack_q.pend_valid && at_pend;
  always_ff @(posedge clk_i) begin
    {row_last_q, row_next_q} <= {row_i.last_psn, row_i.last_psn + 24'd1};
    {row_at_q, row_signaled_q, row_is_last_q} <= {is_atomic(row_i.opcode), row_i.signaled, row_is_last};
  end
  assign complete  = state_q == StWalk && walk_on && row_in && (!row_read || passes_q) && !pend_here;

  // ---- READ data behind a gap (selective repeat) -------------------------------------------------------
  logic                 selects, holds, finds, asks_more, some_left;
  logic [MissingW-1:0]  hole, rest_hole;
  logic [AheadPsns-1:0] with_it, left;
  logic [6:0]           passed, still;
  logic                 passed_ends, passed_only;
  // PSNs from the oldest one to a response, neither counted, and from the first one of the WQE that it may belong to:
  // found where that one changes, a cycle before they are looked at.
  logic [23:0]          between_q, into_q, row_rest;

  always_ff @(posedge clk_i) begin
    if (idles || state_q == StRead) begin
      between_q <= (idles ? now_job_i.psn : job_q.psn) + ~(idles ? st_i.una_psn : ack_q.una_psn);
      into_q    <= (idles ? now_job_i.psn : job_q.psn) - (idles ? st_i.una_first_psn : ack_q.una_first_psn);
    end else if (seek) into_q <= job_q.psn + ~row_i.last_psn;
  end

  assign selects = ctx_i.selective && said.read && job_q.rd_opcode && live_q && !second_q;
  assign holds   = marks_of(ack_q) != '0;

  hca_read_ahead u_read_ahead (
    .clk_i, .look_i(state_q == StLook), .early_i(marks_of(idles ? st_i : ack_q)), .st_i(ack_q),
    .between_i(between_q), .rest_i(row_rest), .row_i,
    .seek_i(state_q == StSeek), .psn_i(job_q.psn), .map_i(state_q == StSeekMap), .blk_i,
    .seek_o(seek), .found_o(finds), .wqe_o(at_wqe), .blk_o(at_blk),
    .asks_o(asks_more), .hole_o(hole), .with_o(with_it), .passed_o(passed),
    .row_ends_o(passed_ends), .row_only_o(passed_only), .left_o(left), .some_o(some_left),
    .still_o(still)
  );

  // The most frequent job by far: an ACK ends with this WQE, and nobody waits for more.
  logic    swift;
  ack_st_t swift_st;
  assign swift = state_q == StWalk && walk_on && plain_q && row_is_all && !row_read
                 && !ack_q.pend_valid && !ack_q.draining && item_ready_i;

  // ---- Credits ---------------------------------------------------------------------------------------
  credit_t same_credit, next_credit;
  logic    late, same_dry, next_dry, same_news, tells, probes;

  hca_ack_credits u_credits (
    .clk_i, .start_i(idles), .job_i(now_job_i), .first_i(st_i), .mark_i(now_mark_i.psn), .step_i(advance), .st_i(ack_q),
    .late_o(late), .same_dry_o(same_dry), .same_o(same_credit), .same_news_o(same_news),
    .next_dry_o(next_dry), .next_o(next_credit)
  );
  assign tells  = said.ack && (live_q || late);
  assign probes = said.rnr_done && ack_q.dry && !ack_q.rnr_wait;  // a packet beyond the limit may go

  always_comb begin
    swift_st               = anew(ack_q, ctx_i);
    swift_st.credit        = next_credit;
    swift_st.credit.probe  = 1'b0;
    swift_st.dry           = next_dry;
    swift_st.una_wqe       = ack_q.una_wqe + 1'b1;
    swift_st.una_psn       = target_q;
    swift_st.una_first_psn = target_q;
    swift_st               = few_closed(swift_st);
    swift_st.blk_ok        = !ends_block;
  end

  assign advance = complete && ((!row_i.signaled && !passes_q) || item_ready_i);

  // ---- End: one decision ---------------------------------------------------------------------------
  logic        end_item, end_pushed, to_second, to_pass, pend_next;
  ack_st_t     base;            // state with the budgets of a new message when there was progress
  logic        is_ack, is_read, refused, asks, bad, spent, rnr_spent;
  logic        at_end, rewind, fail, deliver, places, again, rnr, back, retire, row_ends, all_here,
               path_fails;
  logic [23:0] behind_psn;      // the oldest unacknowledged one behind a response, and what came before it
  logic [7:0]  fail_status, fail_syndrome;
  logic [31:0] rd_offset;
  logic        rd_good, paid, pend_ends, stopped_q, pend_q, waits, is_here, idle, few, row_was_in, rest_none;
  logic        behind_all, none_paid, none_rnr, gap_seen, asks_back;

  assign at_end    = state_q == StEnd;
  assign retire    = said.retire;
  assign row_ends  = looked_q ? passed_ends : rest_none;
  assign behind_psn = ack_q.una_psn + 24'd1 + (looked_q ? 24'(passed) : '0);
  assign all_here  = passes_q ? all_sent : behind_all;
  // Of the next gap, in the WQE that is the oldest one then: without what has passed, if that is not counted yet.
  assign rest_hole = hole_of(still, (passes_q ? row_last_q : row_rest) + ~(passes_q ? ack_q.una_psn : 24'(passed))
                                    + 24'(passes_q));

  hca_same #(.Width(24)) u_behind_all (.a_i(behind_psn), .b_i(mark_i.psn), .same_o(behind_all));

  hca_ack_look u_look (
    .clk_i, .start_i(idles), .now_job_i, .job_i(job_q), .first_i(st_i), .now_mark_i, .now_dead_i, .now_ctx_i, .ctx_i,
    .rxd_i, .row_i, .st_i(ack_q), .into_i(into_q), .row_in_i(row_in), .good_o(rd_good),
    .offset_o(rd_offset), .rest_o(row_rest), .rest_none_o(rest_none), .row_in_o(row_was_in),
    .idle_o(idle), .waits_o(waits), .is_here_o(is_here), .few_o(few), .said_o(said)
  );
  always_ff @(posedge clk_i) begin
    if (idles || state_q == StWalk) stopped_q <= !idles && walk_on && pend_here;
    pend_q <= idles ? st_i.pend_valid && st_i.pend_wqe == st_i.una_wqe : pend_here || (end_pushed && to_second);
  end

  always_comb begin
    base = moved_q ? anew(ack_q, ctx_i) : ack_q;
    if (waits) begin
      base.pend_valid  = 1'b1;
      base.pend_wqe    = job_q.wqe_index;
      base.pend_status = job_q.status;
    end
  end

  assign is_ack      = said.ack && live_q && !second_q;
  assign is_read     = said.read && live_q && !second_q;
  // What `base` says of them, without waiting for it.
  assign gap_seen    = !moved_q && ack_q.gap_seen;
  assign none_paid   = moved_q ? ctx_i.retry_cnt == '0 : ack_q.retry_left == '0;
  assign none_rnr    = moved_q ? ctx_i.rnr_retry == '0 : ack_q.rnr_left == '0;

  // A refusal behind a READ without its data is not the READ's: the data was lost, or is still to come.
  assign refused = is_ack && said.refuses && !(implied_q && row_was_in);
  assign asks    = is_ack && !implied_q && said.rnr && !ack_q.rnr_wait;
  // Back, which costs a retry.
  assign asks_back = live_q && !second_q
                     && (implied_q ? !gap_seen && (said.read || (said.ack && !(said.refuses && !row_was_in)))
                         : said.ack && !said.refuses && (said.gap || few));
  assign rewind  = !ack_q.rnr_wait && (asks_back || (said.timeout && ctx_i.tx_live && !idle));
  // A response that is the oldest one; one that stands behind a gap.
  assign deliver = is_read && !implied_q && !stopped_q && rd_good;
  assign bad     = is_read && !implied_q && !stopped_q && !rd_good;
  assign places  = is_read && found_q && rd_good && !spent;
  // A hole is asked for once more, or another one: that does not. Else it is on its way.
  assign again   = !ack_q.rnr_wait && (is_read ? (places && asks_more)
                                                || (deliver && looked_q && !row_ends && passed != '0 && some_left)
                                              : said.read && passes_q && marks_of(base) != '0);
  // Data of a READ could not be placed: back to it, whatever was decided since. Its CQE and all later ones were held
  // back by rx_exec.
  assign back    = said.back;

  assign pend_ends  = (waits ? is_here : pend_q) && !deliver && !dead_i && !back;
  assign paid       = rewind && !none_paid;
  assign spent      = rewind && none_paid;                       // REL-3, REL-9: retry_cnt 7 is seven
  assign path_fails = spent && ctx_i.is_armed && !pend_ends;     // APM-1: a wait, and the retries anew
  assign rnr_spent  = asks && none_rnr;
  assign rnr        = asks && !rnr_spent && !pend_ends;
  assign fail       = pend_ends || refused || bad || rnr_spent || (spent && !ctx_i.is_armed);

  always_comb begin
    fail_syndrome = pend_ends ? '0 : job_q.syndrome;
    if (pend_ends) fail_status = base.pend_status;
    else if (rnr_spent) fail_status = WcRnrRetryExcErr;
    else if (spent && !ctx_i.is_armed) fail_status = WcRetryExcErr;
    else if (bad) fail_status = WcBadRespErr;
    else if (refused) fail_status = nak_status(job_q.syndrome);
    else fail_status = job_q.status;
  end

  logic resend, few_again;  // ask the requester to start again; some packets alone
  assign few_again = few && !implied_q;
  logic wants, all_over, drained;  // somebody waits for the end of all that is outstanding; it is there; both
  logic none_left, last_row, last_retired;  // nothing is outstanding; nor behind the oldest WQE
  // Not inside a message whose rest is still to be sent. Compared before it is known which of them it will be.
  logic        begins, none_begun, one_begun;
  hca_same #(.Width(24))           u_begins (.a_i(ack_q.una_psn), .b_i(ack_q.una_first_psn), .same_o(begins));
  hca_same #(.Width(WqeIndexBits)) u_none_begun (.a_i(ack_q.una_wqe), .b_i(mark_i.wqe), .same_o(none_begun));
  hca_next #(.Width(WqeIndexBits)) u_one_begun (.a_i(ack_q.una_wqe), .b_i(mark_i.wqe), .next_o(one_begun));
  hca_next #(.Width(24))           u_row_is_last (.a_i(row_i.last_psn), .b_i(mark_i.psn), .next_o(row_is_last));
  hca_next #(.Width(WqeIndexBits)) u_pend_next (.a_i(ack_q.una_wqe), .b_i(ack_q.pend_wqe), .next_o(pend_next));
  assign last_retired = all_sent && begins && one_begun;
  assign last_row     = row_is_last_q && one_begun;
  assign none_left    = all_sent && begins && none_begun;
  assign wants    = ack_q.draining || said.sq_drain;
  assign all_over = deliver ? row_ends && last_row : retire ? last_retired : none_left;
  assign resend = !fail && (paid || again || (said.rnr_done && ack_q.rnr_wait));

  ack_st_t end_st, next_st;

  // Behind a READ that has ended: its last response may complete what is before it as well. A second decision needs no
  // other state.
  always_comb begin
    next_st               = few_closed(anew(base, ctx_i));
    next_st.credit        = next_credit;
    next_st.credit.probe  = 1'b0;
    next_st.dry           = looked_q ? next_credit.on && all_here : next_dry;
    if (looked_q) next_st.marks = left;
    next_st.una_psn       = row_next_q;
    next_st.una_first_psn = row_next_q;
    next_st.una_wqe       = base.una_wqe + 1'b1;
    next_st.rd_done       = base.rd_done + 16'd1;
    next_st.blk_ok        = !ends_block;
    next_st.pend_valid    = base.pend_valid && !pend_q;   // it was sent again in vain, and its answer has come
    next_st.draining      = wants && !dead_i && !last_row;
  end

  always_comb begin
    end_st = few_closed(base);
    dead_o = dead_i;
    if (tells) {end_st.credit, end_st.dry} = {same_credit, same_dry && (live_q || base.dry)};
    else if (moved_q) end_st.dry = 1'b0;
    // What told of the newest packet came behind a gap: if that was all, only a packet beyond the limit learns more.
    if (passes_q) {end_st.credit, end_st.dry} = {next_credit, next_credit.on && all_here};
    if (moved_q) end_st.credit.probe = 1'b0;
    if (probes) {end_st.credit.probe, end_st.dry} = 2'b10;
    if (retire) end_st.credit.limit = base.credit.limit + 1'b1;  // it takes no receive, and no message of the MSN's
    if (deliver && row_ends) end_st = next_st;
    else if (deliver) begin
      end_st              = anew(end_st, ctx_i);
      end_st.una_psn      = behind_psn;
      end_st.credit.probe = 1'b0;
      if (looked_q) {end_st.marks, end_st.dry} = {left, next_credit.on && all_here};
    end
    if (resend) begin
      end_st.rnr_wait = 1'b0;
      end_st.gap_seen = 1'b1;
      end_st.gen      = base.gen + 2'd1;
      if (paid) end_st.retry_left = base.retry_left - 3'd1;
      if (few_again || end_st.few_on) begin
        end_st.few_on = few_again;
        end_st.marks  = few_again ? AheadPsns'({base.una_psn[15:0] + 16'(job_q.few.missing), mark_i.psn[15:0]}) : '0;
      end
    end
    if (places) {end_st.few_on, end_st.marks} = {1'b0, with_it};
    if (rnr) begin
      end_st.rnr_wait = 1'b1;
      end_st.rnr_code = job_q.syndrome[4:0];
      end_st.gen      = base.gen + 2'd1;
      if (base.rnr_left != 3'd7) end_st.rnr_left = base.rnr_left - 3'd1;
    end
    if (path_fails) begin
      end_st.rnr_wait   = 1'b1;
      end_st.rnr_code   = PathCode;
      end_st.gen        = base.gen + 2'd1;
      end_st.retry_left = ctx_i.retry_cnt;
      end_st.rnr_left   = ctx_i.rnr_retry;
    end
    if (retire) begin
      end_st.una_wqe = base.una_wqe + 1'b1;
      end_st.blk_ok  = base.blk_ok && !ends_block;
    end
    if (fail) end_st.una_wqe = base.una_wqe + 1'b1;
    if (back) end_st.una_wqe = job_q.wqe_index + 1'b1;
    if (fail || back) begin  // what it has of the table comes back with its next life
      dead_o          = 1'b1;
      end_st.pend_valid = 1'b0;
      end_st.rnr_wait   = 1'b0;
    end
    drained         = wants && !dead_o && all_over;
    end_st.draining = wants && !dead_o && !all_over;
  end

  `ifndef SYNTHESIS
  always_ff @(posedge clk_i) begin
    if (!rst_i && end_pushed && (to_pass || to_second)) assert (next_st == end_st) else $error("hca_ack_unit: next_st");
  end
  `endif

  assign st_o = (state_q == StWalk) ? swift_st : end_st;   // with done_o: it need not wait for it

  assign upd_valid_o = done_o && (swift || moved_q || deliver || resend || rnr || path_fails || fail || back
                                 || retire || probes || (tells && same_news));
  assign upd_o       = '{rewind: resend, halt: !resend && (st_o.rnr_wait || dead_o), qpn: job_q.qpn,
                         una_wqe: st_o.una_wqe, una_first_psn: st_o.una_first_psn,
                         una_psn: st_o.una_psn, rd_done: st_o.rd_done,
                         again: !resend ? '0 : few_again ? job_q.few.missing : places ? hole : again ? rest_hole : '0,
                         credit: st_o.credit};
  // Who is dead already drains nothing; who dies now is told of, whatever has ended.
  assign ev_valid_o  = done_o && (path_fails || (!dead_i && (fail || back || (wants && all_over))));
  assign ev_o        = '{kind: path_fails ? HwEventPathFailed : drained ? HwEventSqDrained : HwEventQpError,
                         func: ctx_i.func, qpn: job_q.qpn,
                         who: (pend_ends || back) ? 2'(HwWhoRequester) : 2'(HwWhoAck),
                         syndrome: fail_syndrome, status: back ? job_q.status : fail_status};

  // ---- Items ---------------------------------------------------------------------------------------
  assign end_item     = (has_pkt_i && !second_q) || fail || back || (retire && row_signaled_q);
  assign end_pushed   = at_end && item_ready_i;  // whether there is an item is known late
  assign to_pass      = deliver && looked_q && row_ends && (!passed_only || some_left);
  assign to_second    = deliver && row_ends && ack_q.pend_valid && pend_next && !to_pass;
  assign item_valid_o = (complete && (row_i.signaled || passes_q)) || swift || (at_end && end_item);
  // The oldest WQE has completed, and its row is not asked for again.
  assign over         = advance || (end_pushed && ((deliver && row_ends) || retire));
  assign done_o       = swift || (end_pushed && !to_second && !to_pass);
  assign list_o       = '{func: ctx_i.func, base: ctx_i.sq_base, log_size: ctx_i.sq_log_size,
                          log_stride: ctx_i.sq_log_stride, index: found_q ? at_wqe : ack_q.una_wqe};

  hca_ack_item u_item (
    .at_end_i(at_end), .deliver_i(deliver), .places_i(places), .row_at_i(row_at_q),
    .row_signaled_i(row_signaled_q), .row_ends_i(row_ends), .complete_i(complete), .passes_i(passes_q),
    .retire_i(retire), .back_i(back), .fail_i(fail),
    .frees_i(has_pkt_i && (swift || (at_end && !second_q))), .fail_status_i(fail_status),
    .fail_syndrome_i(fail_syndrome), .job_i(job_q), .rxd_i, .ctx_i, .row_i, .una_wqe_i(ack_q.una_wqe),
    .at_wqe_i(at_wqe), .offset_i(rd_offset), .list_bytes_i(wqe_bytes(ctx_i.sq_log_stride)), .item_o
  );

  // ---- State ---------------------------------------------------------------------------------------
  always_comb begin
    state_d   = state_q;
    ack_d     = ack_q;
    moved_d   = moved_q;
    implied_d = implied_q;
    second_d  = second_q;
    {looked_d, passes_d, found_d} = {looked_q, passes_q, found_q};
    unique case (state_q)
      StIdle: begin
        if (start_i) state_d = (!is_pkt && now_job_i.kind != AjMwDone) ? StEnd : blk_ok ? StWalk : StMap;
        ack_d = st_i;
        {moved_d, implied_d, second_d, looked_d, passes_d, found_d} = '0;
      end
      StMap: begin
        ack_d.blk    = blk_i;
        ack_d.blk_ok = live_q && !all_sent;  // else there is no such WQE yet
        state_d      = StWalk;
      end
      StWalk: begin
        if (!walk_on || pend_here) begin
          state_d = (selects && holds && !walk_on) ? StLook : StEnd;
        end else if (row_read && !passes_q) begin
          implied_d = 1'b1;
          state_d   = selects ? StLook : StEnd;
        end else if (!row_in) begin  // acknowledged up to the middle of this message
          ack_d.una_psn = target_q;
          moved_d       = 1'b1;
          state_d       = StEnd;
        end else if (advance) begin
          ack_d.blk_ok        = !ends_block;
          ack_d.una_wqe       = ack_q.una_wqe + 1'b1;
          ack_d.una_psn       = row_i.last_psn + 24'd1;
          ack_d.una_first_psn = row_i.last_psn + 24'd1;
          if (passes_q) ack_d.rd_done = ack_q.rd_done + 16'd1;
          moved_d             = 1'b1;
          state_d             = swift ? StIdle : StRead;
        end
      end
      StRead:  state_d = (at_target && !said.read) ? StEnd : blk_ok ? StWalk : StMap;
      StLook: begin
        looked_d = !implied_q;
        state_d  = implied_q ? StSeek : StEnd;
      end
      StSeek: begin
        found_d = finds;
        state_d = !seek ? StEnd : (at_wqe[MsgRowW-1:0] == '1) ? StSeekMap : StSeek;
      end
      StSeekMap: state_d = StSeek;
      default: begin
        if (done_o) state_d = StIdle;
        if (end_pushed) ack_d = next_st;  // only who goes on looks at it
        if (end_pushed && to_pass) begin
          moved_d  = 1'b1;
          {second_d, passes_d, looked_d} = 3'b110;
          state_d  = StRead;
        end
        if (end_pushed && to_second) begin
          moved_d  = 1'b1;
          second_d = 1'b1;
        end
      end
    endcase
  end

  always_ff @(posedge clk_i) begin
    if (rst_i || void_i) state_q <= StIdle;
    else state_q <= state_d;
    ack_q     <= ack_d;
    moved_q   <= moved_d;
    implied_q <= implied_d;
    second_q  <= second_d;
    {looked_q, passes_q, found_q} <= {looked_d, passes_d, found_d};
    if (state_q == StEnd && passes_d && !passes_q) target_q <= behind_psn;
    at_target_q <= idles ? at_first : at_target;
    if (idles) begin
      job_q    <= now_job_i;
      target_q <= target;
      plain_q  <= plain_ack;
      // Reserved syndromes answer nothing.
      live_q   <= in_window && is_pkt
                  && (now_job_i.kind == AjRead || (!now_job_i.syndrome[7] && now_job_i.syndrome[6:5] != 2'b10));
    end
  end

  logic unused_in;
  assign unused_in = ^{rxd_i, ctx_i, now_mark_i};

endmodule
