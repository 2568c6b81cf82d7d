"""Small netlists for tests of mutation's tools: registers that count, hold and idle; a memory."""

__all__ = ["INSIDE", "MEMORY", "RTLIL"]

RTLIL = r"""
attribute \src "/rtl/compute/counter.py:1"
module \adagp
  wire input 1 \clk
  wire input 2 \up
  wire width 2 output 3 \o
  attribute \init 2'00
  wire width 2 \count
  wire width 2 \next
  wire \spare
  wire \kept
  attribute \init 1'0
  wire \lost
  attribute \init 1'0
  wire \stuck
  attribute \src "/rtl/compute/counter.py:7"
  cell $add \more
    parameter \A_SIGNED 0
    parameter \A_WIDTH 2
    parameter \B_SIGNED 0
    parameter \B_WIDTH 1
    parameter \Y_WIDTH 2
    connect \A \count
    connect \B \up
    connect \Y \next
  end
  attribute \src "/rtl/compute/counter.py:8"
  cell $dff \register
    parameter \CLK_POLARITY 1
    parameter \WIDTH 2
    connect \CLK \clk
    connect \D \next
    connect \Q \count
  end
  attribute \src "/rtl/other.py:3"
  cell $dff \idle
    parameter \CLK_POLARITY 1
    parameter \WIDTH 1
    connect \CLK \clk
    connect \D \up
    connect \Q \lost
  end
  attribute \src "/rtl/other.py:4"
  cell $and \nothing
    parameter \A_SIGNED 0
    parameter \A_WIDTH 1
    parameter \B_SIGNED 0
    parameter \B_WIDTH 1
    parameter \Y_WIDTH 1
    connect \A \lost
    connect \B \stuck
    connect \Y \spare
  end
  attribute \src "/rtl/other.py:5"
  cell $and \hold
    parameter \A_SIGNED 0
    parameter \A_WIDTH 1
    parameter \B_SIGNED 0
    parameter \B_WIDTH 1
    parameter \Y_WIDTH 1
    connect \A \stuck
    connect \B \up
    connect \Y \kept
  end
  attribute \src "/rtl/other.py:5"
  cell $dff \zero
    parameter \CLK_POLARITY 1
    parameter \WIDTH 1
    connect \CLK \clk
    connect \D \kept
    connect \Q \stuck
  end
  attribute \src "/rtl/other.py:5"
  cell $or \out
    parameter \A_SIGNED 0
    parameter \A_WIDTH 2
    parameter \B_SIGNED 0
    parameter \B_WIDTH 1
    parameter \Y_WIDTH 2
    connect \A \count
    connect \B \spare
    connect \Y \o
  end
end
"""

INSIDE = r"""
module \adagp
  wire input 1 \clk
  wire input 2 \up
  wire width 2 output 3 \o
  cell \inner \block
    connect \clk \clk
    connect \up \up
    connect \o \o
  end
end
""" + RTLIL.replace("module \\adagp\n", "module \\inner\n")

MEMORY = """
module adagp (input clk, input en, input [3:0] wa, input [3:0] ra, input x, input d, output reg o = 0);
  reg words [0:15];
  integer i;
  initial for (i = 0; i < 16; i = i + 1) words[i] = 0;
  wire word = words[ra], masked;
  \\$and #(.A_SIGNED(0), .B_SIGNED(0), .A_WIDTH(1), .B_WIDTH(1), .Y_WIDTH(1)) upper (.A(word), .B(x), .Y(masked));
  always @(posedge clk) begin
    if (en && wa <= LAST) words[wa] <= d;
    o <= ra > 7 ? masked : word;
  end
endmodule
"""
