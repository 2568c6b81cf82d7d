// The accelerator's AXI4 port m_axi, between a Verilated model and the memory of dram.h.
#pragma once

#include "dram.h"

namespace adagp {

// Takes the signals that the accelerator drives.
template <typename Top>
void sample_memory(const Top& top, Master& m) {
    m.arvalid = top.m_axi_arvalid;
    if (m.arvalid)
        m.ar = {top.m_axi_araddr, top.m_axi_arid, top.m_axi_arlen, top.m_axi_arsize, top.m_axi_arburst};
    m.awvalid = top.m_axi_awvalid;
    if (m.awvalid)
        m.aw = {top.m_axi_awaddr, top.m_axi_awid, top.m_axi_awlen, top.m_axi_awsize, top.m_axi_awburst};
    m.wvalid = top.m_axi_wvalid;
    if (m.wvalid) {
        std::memcpy(m.w.data.data(), &top.m_axi_wdata, BEAT_BYTES);
        m.w.strobe = top.m_axi_wstrb;
        m.w.last = top.m_axi_wlast;
    }
    m.rready = top.m_axi_rready;
    m.bready = top.m_axi_bready;
}

// Sets the signals that the memory drives.
template <typename Top>
void drive_memory(Top& top, const Slave& s) {
    top.m_axi_arready = s.arready;
    top.m_axi_awready = s.awready;
    top.m_axi_wready = s.wready;
    top.m_axi_bvalid = s.bvalid;
    top.m_axi_bid = s.bid;
    top.m_axi_bresp = s.bresp;
    top.m_axi_rvalid = s.rvalid;
    if (!s.rvalid) return;
    top.m_axi_rid = s.rid;
    top.m_axi_rresp = s.rresp;
    top.m_axi_rlast = s.rlast;
    std::memcpy(&top.m_axi_rdata, s.rdata.data(), BEAT_BYTES);
}

}  // namespace adagp
