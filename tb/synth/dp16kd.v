// A DP16KD as far as it is used, after Lattice's guide to memories: port A writes, and reads where words have fewer than
// 36 bits; port B reads, 36 bits through the outputs of both. A port's output register heeds OCE alone. Of the block's
// 2048 pieces of nine bits there are sixteen here, each of which stands for many; none has a value to begin with.
module DP16KD #(
  parameter DATA_WIDTH_A = 18, DATA_WIDTH_B = 18,
  REGMODE_A = "", REGMODE_B = "", WRITEMODE_A = "", WRITEMODE_B = "", CLKAMUX = "", CLKBMUX = "", CSDECODE_A = "",
  CSDECODE_B = "", GSR = "", RESETMODE = "", ASYNC_RESET_RELEASE = ""
) (
  input CLKA, CEA, OCEA, WEA, RSTA, CLKB, CEB, OCEB, WEB, RSTB, CSA0, CSA1, CSA2, CSB0, CSB1, CSB2,
  ADA13, ADA12, ADA11, ADA10, ADA9, ADA8, ADA7, ADA6, ADA5, ADA4, ADA3, ADA2, ADA1, ADA0,
  ADB13, ADB12, ADB11, ADB10, ADB9, ADB8, ADB7, ADB6, ADB5, ADB4, ADB3, ADB2, ADB1, ADB0,
  DIA17, DIA16, DIA15, DIA14, DIA13, DIA12, DIA11, DIA10, DIA9, DIA8, DIA7, DIA6, DIA5, DIA4, DIA3, DIA2, DIA1,
  DIA0,
  DIB17, DIB16, DIB15, DIB14, DIB13, DIB12, DIB11, DIB10, DIB9, DIB8, DIB7, DIB6, DIB5, DIB4, DIB3, DIB2, DIB1,
  DIB0,
  output DOA17, DOA16, DOA15, DOA14, DOA13, DOA12, DOA11, DOA10, DOA9, DOA8, DOA7, DOA6, DOA5, DOA4, DOA3, DOA2, DOA1,
  DOA0,
  DOB17, DOB16, DOB15, DOB14, DOB13, DOB12, DOB11, DOB10, DOB9, DOB8, DOB7, DOB6, DOB5, DOB4, DOB3, DOB2, DOB1, DOB0
);
  reg [8:0] pieces [0:15];
  wire [13:0] at_a = {ADA13, ADA12, ADA11, ADA10, ADA9, ADA8, ADA7, ADA6, ADA5, ADA4, ADA3, ADA2, ADA1, ADA0};
  wire [13:0] at_b = {ADB13, ADB12, ADB11, ADB10, ADB9, ADB8, ADB7, ADB6, ADB5, ADB4, ADB3, ADB2, ADB1, ADB0};
  wire [35:0] written = {
    DIB17, DIB16, DIB15, DIB14, DIB13, DIB12, DIB11, DIB10, DIB9, DIB8, DIB7, DIB6, DIB5, DIB4, DIB3, DIB2, DIB1,
    DIB0,
    DIA17, DIA16, DIA15, DIA14, DIA13, DIA12, DIA11, DIA10, DIA9, DIA8, DIA7, DIA6, DIA5, DIA4, DIA3, DIA2, DIA1,
    DIA0
  };
  wire [3:0] first_a = at_a[6:3] & ~(DATA_WIDTH_A / 9 - 1), first_b = at_b[6:3] & ~(DATA_WIDTH_B / 9 - 1);
  reg [35:0] word_a, word_b;
  reg [17:0] low, high, held_low, held_high;
  integer i;

  always @* begin
    word_a = 0;
    word_b = 0;
    for (i = 0; i < DATA_WIDTH_A / 9; i = i + 1) word_a[9 * i +: 9] = pieces[first_a + i];
    for (i = 0; i < DATA_WIDTH_B / 9; i = i + 1) word_b[9 * i +: 9] = pieces[first_b + i];
  end

  always @(posedge CLKA)
    if (CEA && WEA)
      for (i = 0; i < DATA_WIDTH_A / 9; i = i + 1)
        if (DATA_WIDTH_A == 9 || at_a[i]) pieces[first_a + i] <= written[9 * i +: 9];

  generate
    if (DATA_WIDTH_B == 36) begin
      always @(posedge CLKB) begin
        if (CEB) {high, low} <= word_b;
        if (OCEB) {held_high, held_low} <= {high, low};
      end
    end else begin
      always @(posedge CLKA) begin
        if (CEA && (!WEA || WRITEMODE_A == "READBEFOREWRITE")) low <= word_a[17:0];
        if (OCEA) held_low <= low;
      end
      always @(posedge CLKB) begin
        if (CEB) high <= word_b[17:0];
        if (OCEB) held_high <= high;
      end
    end
  endgenerate

  assign {DOA17, DOA16, DOA15, DOA14, DOA13, DOA12, DOA11, DOA10, DOA9, DOA8, DOA7, DOA6, DOA5, DOA4, DOA3, DOA2, DOA1,
    DOA0}
    = REGMODE_A == "OUTREG" ? held_low : low;
  assign {DOB17, DOB16, DOB15, DOB14, DOB13, DOB12, DOB11, DOB10, DOB9, DOB8, DOB7, DOB6, DOB5, DOB4, DOB3, DOB2, DOB1,
    DOB0}
    = REGMODE_B == "OUTREG" ? held_high : high;
endmodule
